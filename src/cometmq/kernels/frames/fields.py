"""The fields of request headers whose places are kept for each frame that is read.

They are those of the requests in ``KINDS``, and what clients sign beside them. A new request costs a line
there. A field's *column* is its number in ``NAMES``: the value of the field in column ``c`` begins and ends
at ``places[2 * c]`` and ``places[2 * c + 1]`` of the frame's places, which are ABSENT if it is missing.
"""

from enum import IntEnum
from typing import Final

from cometmq.wire.acl import ACCESS_KEY, SIGNATURE
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import (
    AckHeader,
    Header,
    PullHeader,
    QueryMessageHeader,
    SendHeaderV2,
    ViewMessageHeader,
)


class FrameKind(IntEnum):
    """Who takes a frame."""

    COMMAND = 0
    """It is another request, or in an unusual spelling: it is decoded and handled as a command."""
    SEND = 1
    PULL = 2
    ACK = 3
    QUERY = 4


KINDS: Final[dict[int, tuple[FrameKind, type[Header]]]] = {
    RequestCode.SEND_MESSAGE_V2: (FrameKind.SEND, SendHeaderV2),
    RequestCode.SEND_BATCH_MESSAGE: (FrameKind.SEND, SendHeaderV2),
    RequestCode.PULL_MESSAGE: (FrameKind.PULL, PullHeader),
    RequestCode.LITE_PULL_MESSAGE: (FrameKind.PULL, PullHeader),
    RequestCode.ACK_MESSAGE: (FrameKind.ACK, AckHeader),
    RequestCode.QUERY_MESSAGE: (FrameKind.QUERY, QueryMessageHeader),
    RequestCode.VIEW_MESSAGE_BY_ID: (FrameKind.QUERY, ViewMessageHeader),
}
"""The kind and the header of each request that is read into rows."""

_OF_JAVA: Final = ("lo", "ns", "nsd", "oway", "proxyFrowardClientId", "requestSource")
"""Fields that RocketMQ's own client adds, which say nothing here, but are signed."""

NAMES: Final = tuple(
    sorted(
        {ACCESS_KEY, SIGNATURE, *_OF_JAVA}.union(
            *(kind[1].__struct_encode_fields__ for kind in KINDS.values())
        )
    )
)
"""All fields, in the order in which their values are signed."""
FIELD_COUNT: Final = len(NAMES)
ABSENT: Final = -1


def columns(*names: str) -> tuple[int, ...]:
    """Return the columns of fields."""
    return tuple(map(NAMES.index, names))
