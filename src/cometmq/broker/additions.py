"""What the broker adds to a message's properties before it is stored.

``MSG_REGION``, ``TRACE_ON`` and ``CLUSTER`` are added behind what the producer wrote, and
``UNIQ_KEY`` if the producer gave none; ``POP_CK`` is taken out. (RocketMQ: SendMessageProcessor.java.)
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.properties import (
    CLUSTER,
    MAX_LENGTH,
    MSG_REGION,
    NAME_END,
    POP_CK,
    TAGS,
    TRACE_ON,
    UNIQ_KEY,
    VALUE_END,
    WAIT,
)

_REPLACED: Final = frozenset({MSG_REGION, TRACE_ON, CLUSTER, POP_CK})


class Completed(NamedTuple):
    """A message's properties as they are stored.

    Attributes:
        data: the properties string.
        named: the producer's own properties by name.
        tags: the property TAGS.
        unique_key: the property UNIQ_KEY.
        wait: whether the producer wants to wait for the disk.
    """

    data: bytes
    named: dict[str, str]
    tags: str | None
    unique_key: str
    wait: bool


class Additions:
    """The properties that one broker adds.

    Args:
        region: of the broker.
        trace_on: whether clients shall trace messages.
        cluster: of the broker.
        make_unique_key: gives the next unique id.
    """

    def __init__(
        self, *, region: str, trace_on: bool, cluster: str, make_unique_key: Callable[[], str]
    ) -> None:
        added = {MSG_REGION: region, TRACE_ON: str(trace_on).lower(), CLUSTER: cluster}
        self._added = properties.encode(added).decode()
        self._make_unique_key = make_unique_key

    def complete(self, text: str) -> Completed:
        """Complete the properties string of a message that was sent by itself.

        Raises MessageIllegal if it gets too long.
        """
        named = parse(text)
        unique_key = named.get(UNIQ_KEY)
        if unique_key and text[-1] == VALUE_END and _REPLACED.isdisjoint(named):
            data = (text + self._added).encode()
        else:
            named = {name: value for name, value in named.items() if value and name not in _REPLACED}
            unique_key = named.setdefault(UNIQ_KEY, self._make_unique_key())
            data = properties.encode(named) + self._added.encode()
        return self._completed(data, named, unique_key)

    def complete_member(self, data: bytes) -> Completed:
        """Take the properties string of a message within a batch: it is stored as it was sent.

        Raises MessageIllegal if it is too long.
        """
        named = parse(data.decode(errors="replace"))
        return self._completed(data, named, named.get(UNIQ_KEY, ""))

    @staticmethod
    def _completed(data: bytes, named: dict[str, str], unique_key: str) -> Completed:
        if len(data) > MAX_LENGTH:
            raise MessageIllegal(
                f"the properties, with what the broker adds, take {len(data)} bytes: "
                f"the limit is {MAX_LENGTH}; send fewer or shorter ones"
            )
        return Completed(data, named, named.get(TAGS) or None, unique_key, named.get(WAIT) != "false")


def parse(text: str) -> dict[str, str]:
    """Read a properties string: fast where it is as clients write it, else as ``properties.decode`` does."""
    pieces = text.split(VALUE_END)
    if not pieces[-1]:
        pieces.pop()
    try:
        return dict([piece.split(NAME_END, 1) for piece in pieces])
    except ValueError:  # a piece without a name
        return properties.decode(text.encode())
