"""The settings that a broker runs with, and the few of them that operators can change meanwhile.

A change takes effect at once, and is saved beside the store, in ``config/changedSettings.json``. Later starts
have it, too, whatever the broker's own settings file says, which is never written. All names and values of a
request are checked before anything is changed. No path, address, command or name of a class can be changed:
that is how the brokers of CVE-2023-33246 and CVE-2023-37582 were taken over.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from cometmq.broker import settings as all_settings
from cometmq.broker.refused import Refused
from cometmq.broker.settings import Settings, as_properties, known_names, shown_properties
from cometmq.broker.state import table_files
from cometmq.broker.state.saved_entries import SavedCallback
from cometmq.errors import SettingsError, StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store import settings as store_settings
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion
from cometmq.wire.codes import ResponseCode

CHANGEABLE: Final = frozenset(
    (
        "allowRecallWhenBrokerNotWriteable",
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "longPollingEnable",
        "notifyConsumerIdsChangedEnable",
        "recallMessageEnable",
        "rejectTransactionMessage",
        "shortPollingTimeMills",
        "storeReplyMessageEnable",
        "transactionCheckMax",
        "transactionTimeOut",
        # Of the store: how much one pull or pop reads …
        "accessMessageInMemoryMaxRatio",
        "maxFilterMessageSize",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInDisk",
        "maxTransferCountOnMessageInMemory",
        # … and what is removed, and when.
        "cleanFileForciblyEnable",
        "cleanResourceInterval",
        "deleteCommitLogFilesInterval",
        "deleteConsumeQueueFilesInterval",
        "deleteFileBatchMax",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "fileReservedTime",
    )
)
"""The settings that can be changed while the broker runs."""

TABLE: Final = "changedSettings"
"""Name of the table of the changes."""
_MEMBER: Final = "settings"

_log = get_logger(__name__)


class LiveSettings:
    """The settings of a running broker.

    Args:
        table: the changes until now, which ``settings`` contain.
        apply: passes changed settings to the parts of the broker.

    Attributes:
        version: counts the changes since the start.
    """

    def __init__(
        self, settings: Settings, table: JsonTable, clock: Clock, apply: Callable[[Settings], None]
    ) -> None:
        self._settings = settings
        self._table = table
        self._clock = clock
        self._apply = apply
        self._changes = load_changes(table)
        self._saving: asyncio.Task[None] | None = None
        self.version = DataVersion(timestamp=clock.now_ms())

    def as_properties(self) -> dict[str, str]:
        """Return all settings by their names in files, as text, sorted, without secrets."""
        return shown_properties(self._settings)

    def change(self, values: Mapping[str, str], when_saved: SavedCallback) -> None:
        """Change settings, all or none; ``when_saved`` is called once they are saved.

        If the disk refuses them, the settings are as before then. Raises Refused.
        """
        for name in values:
            if name not in CHANGEABLE:
                raise Refused(ResponseCode.NO_PERMISSION, _why_not(name))
        try:
            changed = with_changes(self._settings, values)
        except SettingsError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if self._saving is not None:
            raise Refused(ResponseCode.SYSTEM_BUSY, "other changes of settings are being saved: try again")
        before, self._settings = self._settings, changed
        self._apply(changed)
        save = self._save(before, self._changes | dict(values), when_saved)
        self._saving = asyncio.create_task(save, name="save changed settings")

    async def settled(self) -> None:
        """Wait until the last change is saved, or refused by the disk."""
        if self._saving is not None:
            await self._saving

    async def _save(self, before: Settings, changes: dict[str, str], when_saved: SavedCallback) -> None:
        """Save changes that hold already; restore the settings ``before`` them if the disk refuses."""
        try:
            error = await asyncio.to_thread(_save, self._table, changes)
        finally:
            self._saving = None
        if error is None:
            self._changes = changes
            self.version = self.version.next(self._clock.now_ms())
            _log.info("settings changed at run time: %s", _listed(changes))
        else:
            self._settings = before
            self._apply(before)
        when_saved(error)


def load_changes(table: JsonTable) -> dict[str, str]:
    """Read the changes of former runs; names that cannot be changed are left out, and logged."""
    content = table.load()
    changes = content.get(_MEMBER) if content is not None else None
    if not isinstance(changes, dict):
        return {}
    if unknown := sorted(changes.keys() - CHANGEABLE):
        _log.warning("%s: passed over, as they cannot be changed: %s", table.path, ", ".join(unknown))
    return {name: str(value) for name, value in changes.items() if name in CHANGEABLE}


def with_changes(settings: Settings, changes: Mapping[str, str]) -> Settings:
    """Return settings with changes. Raises SettingsError that names the setting, its value and its limit."""
    values = as_properties(settings) | dict(changes)
    return Settings(all_settings.from_properties(values), store_settings.from_properties(values))


def with_saved_changes(settings: Settings, table: JsonTable) -> Settings:
    """Return settings with the changes of former runs, which are logged. Raises SettingsError."""
    changes = load_changes(table)
    if not changes:
        return settings
    _log.info("%s: changed while the broker ran, and in force: %s", table.path, _listed(changes))
    try:
        return with_changes(settings, changes)
    except SettingsError as error:
        raise SettingsError(f"{table.path}: {error}; repair the file, or remove it") from None


def _why_not(name: str) -> str:
    """Return the reason why a setting cannot be changed."""
    if name not in known_names():
        return f"this broker has no setting {name[:80]}"
    return (
        f"{name} is read when the broker starts: change its settings file and restart it. "
        "The page of settings lists those that can be changed while it runs, and why not the others"
    )


def _save(table: JsonTable, changes: Mapping[str, str]) -> StoreNotWritable | None:
    try:
        table_files.save(table, {_MEMBER: dict(sorted(changes.items()))})
    except StoreNotWritable as error:
        return error
    return None


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(values.items()))
