"""The id that a controller has assigned to a broker, in two files of the store directory.

====================== ============================================ ======================================
File                   Content                                      While
====================== ============================================ ======================================
``brokerIdentity``     ``cluster#brokerName#brokerId``              the broker has the id, for ever
``brokerIdentity-temp`` the same and ``#registerCheckCode``         it applies for the id
====================== ============================================ ======================================

The check code (``address;time``) proves to the controller that a second application is by the same broker: so
one that crashes between the controller's answer and the first file still gets the same id.

Source: RocketMQ ``store/ha/autoswitch/BrokerMetadata.java``, ``TempBrokerMetadata.java``.
"""

from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import FormatError, SettingsError, StoreDamaged
from cometmq.format import layout
from cometmq.io.files import FileLayer

_SEPARATOR: Final = "#"
_ID_MAX: Final = 2**63 - 1


class BrokerSet(NamedTuple):
    """The brokers of one name in one cluster: a master and its slaves."""

    cluster_name: str
    broker_name: str

    def __str__(self) -> str:
        return f"{self.cluster_name}/{self.broker_name}"


class IdApplication(NamedTuple):
    """An id that a broker applies for, and the code by which the controller knows it again."""

    broker_id: int
    check_code: str


class IdentityFiles:
    """The two files of one broker.

    Args:
        members: the set of the broker by its settings.
    """

    def __init__(self, layer: FileLayer, root: Path, members: BrokerSet) -> None:
        for name in members:
            if not name or _SEPARATOR in name:
                raise SettingsError(
                    f"{name!r} cannot be the name of a cluster or broker under a controller: use a name "
                    f"without {_SEPARATOR}, which separates the names in brokerIdentity"
                )
        self._layer = layer
        self._members = members
        self._identity = layout.broker_identity_path(root)
        self._application = layout.broker_application_path(root)

    def load_id(self) -> int | None:
        """Return the broker's id, None if it has none yet. Raises StoreDamaged, SettingsError."""
        parts = self._load(self._identity, 3)
        return None if parts is None else self._id(self._identity, parts)

    def load_application(self) -> IdApplication | None:
        """Return the id that the broker was applying for, or None. Raises StoreDamaged, SettingsError."""
        parts = self._load(self._application, 4)
        return None if parts is None else IdApplication(self._id(self._application, parts), parts[3])

    def save_application(self, application: IdApplication) -> None:
        """Save the id to apply for, durably, before the controller is asked. Raises OSError."""
        self._save(self._application, str(application.broker_id), application.check_code)

    def save_id(self, broker_id: int) -> None:
        """Save the assigned id, durably, and remove the application. Raises OSError."""
        self._save(self._identity, str(broker_id))
        self.remove_application()

    def remove_application(self) -> None:
        """Remove the application: its id belongs to another broker. Raises OSError."""
        self._layer.remove(self._application)

    def _save(self, path: Path, *parts: str) -> None:
        self._layer.make_directory(path.parent)
        self._layer.save(path, _SEPARATOR.join([*self._members, *parts]).encode())

    def _load(self, path: Path, count: int) -> list[str] | None:
        """Return the parts of a file; None if there is none, or it is empty, as a crash leaves it."""
        if not self._layer.exists(path):
            return None
        try:
            text = self._layer.load(path).decode().strip()
        except UnicodeDecodeError as error:
            raise StoreDamaged(f"{path}: not UTF-8 at byte {error.start}; {self._remedy}") from None
        if not text:
            return None
        parts = text.split(_SEPARATOR)
        if len(parts) != count:
            raise StoreDamaged(
                f"{path}: {text[:80]!r} has {len(parts)} parts, expected {count}; {self._remedy}"
            )
        found = BrokerSet(*parts[:2])
        if found != self._members:
            raise SettingsError(
                f"{path} is of {found}, but brokerClusterName and brokerName say {self._members}: correct "
                "the settings, or use another store directory"
            )
        return parts

    def _id(self, path: Path, parts: list[str]) -> int:
        try:
            return _parse_id(parts[2])
        except FormatError as error:
            raise StoreDamaged(f"{path}: {error}; {self._remedy}") from None

    @property
    def _remedy(self) -> str:
        return f"write {self._members.cluster_name}#{self._members.broker_name}#ID with the id that it had"


def _parse_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= _ID_MAX):
        raise FormatError(f"broker id {text[:40]!r}: must be a number of 1 or more")
    return int(text)
