"""Acknowledgements of popped messages as rows: what a broker and the leaf operation on them pass each other.

The operation has a plain body (``plain``, the readable definition) and a compiled one (``compiled``); both
return the same for the same arguments. An acknowledgement that it leaves is no error: it is handled as a
command.
"""

from typing import Final, Protocol

import numpy as np

from cometmq.kernels.headers.places import PLACES_SIZE
from cometmq.kernels.ops import Bytes, Longs
from cometmq.wire.template import EmptyResponses

ACKS_MAX: Final = 256
"""Most acknowledgements that are read together."""
TEXTS_SIZE: Final = 1 << 16
"""Room for the texts of all that are read together, bytes."""
TEXT_MAX: Final = 4096
"""Most bytes of one acknowledgement's group, topic and handle: longer ones are left."""
OFFSET_DIGITS_MAX: Final = 18
"""Most digits of a handle's last number: one with more is left."""

# The columns of an acknowledgement's row.
(
    FRAME_END,
    OFFSET,  # queue offset of the message
    ANSWER_END,  # of the response to it, and to all before it
) = range(3)
ROW_SIZE: Final = 3

# The columns of a check point's row. Its texts are one after the other: group, topic, receipt handle.
(
    QUEUE_ID,
    TEXTS_AT,
    GROUP_END,
    TOPIC_END,
    HANDLE_END,
    ROWS_END,  # of its acknowledgements, which stand side by side
) = range(6)
POINT_SIZE: Final = 6


class AckRows:
    """Room for the acknowledgements of a socket read.

    Attributes:
        rows: int64, a row for each acknowledgement: see ``FRAME_END`` and the others.
        points: int64, a row for each check point of neighbours: see ``QUEUE_ID`` and the others.
        texts: the texts of the check points, ASCII.
        answers: the responses, which say that all is done.
        responses: encodes them; ``before`` and ``behind`` are what is around their opaque numbers.
        places: room for where the fields of a header are.
    """

    def __init__(self, count: int = ACKS_MAX, texts_size: int = TEXTS_SIZE) -> None:
        self.rows: Longs = np.zeros((count, ROW_SIZE), np.int64)
        self.points: Longs = np.zeros((count, POINT_SIZE), np.int64)
        self.texts: Bytes = np.zeros(texts_size, np.uint8)
        self.responses = EmptyResponses()
        self.before: Bytes = np.frombuffer(self.responses.before, np.uint8)
        self.behind: Bytes = np.frombuffer(self.responses.behind, np.uint8)
        self.answers: Bytes = np.empty(count * self.responses.size_max, np.uint8)
        self.places: Longs = np.empty(PLACES_SIZE, np.int64)


class AckOps(Protocol):
    """The leaf operation on acknowledgements.

    Attributes:
        body: which body of it this is: rows are counted by it.
    """

    @property
    def body(self) -> str:
        """Which body of the operation this is: rows are counted by it."""
        ...

    def read(self, data: bytes, begin: int, into: AckRows, /) -> int:
        """Read the acknowledgements of ``data`` from ``begin`` on, up to the first other frame.

        So it stops, too, at one in an unusual spelling, whose handle has no last number, or for which there
        is no room. Two neighbours are of one check point if group, topic, queue and handle are the same but
        for the handle's last number, the message's offset.

        Returns:
            How many check points they are of; the last one's ROWS_END is how many acknowledgements there are.
        """
        ...
