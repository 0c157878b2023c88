"""The topics in which messages in transactions wait, and the op messages that name those that are ended.

======================================== ===========================================================
``RMQ_SYS_TRANS_HALF_TOPIC``             half messages, in queue 0, until their producers end them
``RMQ_SYS_TRANS_OP_HALF_TOPIC``          op messages, in queue 0: the tag ``d``, and as body the offsets
                                         in the half queue of messages that are ended: ``5,6,``
======================================== ===========================================================

The offsets that ``CID_RMQ_SYS_TRANS`` has committed in the two say up to where both are settled. Brokers
before 5.0 name one offset in each op message.

Source: RocketMQ ``TransactionalMessageUtil.java``, ``TransactionalMessageServiceImpl.java``.
"""

from collections.abc import Iterable
from typing import Final

from cometmq.message import Buffer

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group whose committed offsets say which half messages and op messages are settled."""
QUEUE_ID: Final = 0
"""Of the half topic, and of the op topic."""
ENDED_TAG: Final = "d"
"""Tag of op messages that end half messages; op messages with other tags are ignored."""
SEPARATOR: Final = ","


def encode_offset(half_offset: int) -> str:
    """Encode an offset as a part of an op message's body."""
    return f"{half_offset}{SEPARATOR}"


def encode_offsets(half_offsets: Iterable[int]) -> bytes:
    """Encode the body of an op message."""
    return "".join(map(encode_offset, half_offsets)).encode()


def ended_offsets(tags: str | None, body: Buffer) -> list[int]:
    """Decode the offsets of half messages that an op message names."""
    if tags != ENDED_TAG:
        return []
    pieces = str(body, "ascii", "replace").split(SEPARATOR)
    return [int(piece) for piece in pieces if piece.isdecimal()]
