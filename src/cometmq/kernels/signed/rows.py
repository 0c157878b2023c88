"""Signed requests as rows: what a check and the leaf operation on them pass each other.

The operation has a plain body (``plain``, the readable definition) and a compiled one (``compiled``); both
return the same for the same arguments. A request that it leaves is no error: it is checked as a command.
"""

from typing import Final, Protocol

import numpy as np

from cometmq.kernels.headers.places import PLACES_SIZE
from cometmq.kernels.ops import Bytes, Longs
from cometmq.wire.codes import RequestCode
from cometmq.wire.requests import SENDS

CODES: Final = (
    *map(int, SENDS),
    int(RequestCode.PULL_MESSAGE),
    int(RequestCode.LITE_PULL_MESSAGE),
    int(RequestCode.QUERY_MESSAGE),
    int(RequestCode.ACK_MESSAGE),
)
"""What brokers handle in bulk, but for VIEW_MESSAGE_BY_ID, which is checked by what it finds."""
ROWS_MAX: Final = 256
"""Most requests that are read together."""
TEXTS_SIZE: Final = 1 << 17
"""Room for the texts of all that are read together, bytes."""
SPARE: Final = 64
"""Bytes of that room that there must be for a request beside twice its header, else it is left."""
FIELDS_MAX: Final = 32
"""Most fields of a request that are signed: one with more is left, and one with none."""

KEY_FIELDS: Final = ("AccessKey", "topic", "b", "consumerGroup")
"""The fields that a request's key has: who sends it, and what those of ``CODES`` may name."""
NO_TEXT: Final = -1
"""The length in a key of a field that is missing."""

# The columns of a row: where the frame and its body are in the read, and the texts of the request, which are
# one after the other: what is signed of the header, the signature, the key.
(
    FRAME_END,
    BODY_AT,
    SIGNED_AT,
    SIGNATURE_AT,
    KEY_AT,
    KEY_END,
) = range(6)
ROW_SIZE: Final = 6

# The columns of a field in ``places``, behind those of ``headers.places``, and their number before them.
NAME_AT, NAME_END, VALUE_AT, VALUE_END, KEY_FIELD = range(5)
FIELD_SIZE: Final = 5


class SignedRows:
    """Room for the signed requests of a socket read.

    Attributes:
        rows: int64, a row for each request: see ``FRAME_END`` and the others.
        texts: their texts, UTF-8.
        places: room for where the fields of a header are.
    """

    def __init__(self, count: int = ROWS_MAX, texts_size: int = TEXTS_SIZE) -> None:
        self.rows: Longs = np.zeros((count, ROW_SIZE), np.int64)
        self.texts: Bytes = np.zeros(texts_size, np.uint8)
        self.places: Longs = np.empty(PLACES_SIZE + 1 + FIELDS_MAX * FIELD_SIZE, np.int64)


class SignedOps(Protocol):
    """The leaf operation on signed requests."""

    def read(self, data: bytes, begin: int, into: SignedRows, /) -> int:
        """Read the requests of ``data`` from ``begin`` on, up to the first other or unusually spelled one.

        What is signed of a header are the values of its fields, in the order of their names, but for the
        signature (``wire.acl``). A key has the request's code and flag, four bytes each, and for each of
        ``KEY_FIELDS`` its length, four bytes or NO_TEXT, and its text. So requests with the same key are the
        same to who decides by their sender, their code, and what they name.

        Returns:
            How many there are.
        """
        ...
