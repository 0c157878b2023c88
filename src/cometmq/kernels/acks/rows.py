"""Acknowledgements of popped messages as rows: what a broker and the leaf operation on them pass each other.

The operation has a plain body (``plain``, the readable definition) and a compiled one (``compiled``); both
return the same for the same arguments. An acknowledgement that it leaves is no error: it is handled as a
command.
"""

from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.arrays import ArrayTable, Bytes, joined
from cometmq.kernels.frames.rows import Frames
from cometmq.wire.template import EmptyResponses

ACKS_MAX: Final = 256
"""Most acknowledgements that are read together."""
TEXTS_SIZE: Final = 1 << 16
"""Room for the texts of all that are read together, bytes."""
TEXT_MAX: Final = 4096
"""Most bytes of one acknowledgement's group, topic and handle: longer ones are left."""
OFFSET_DIGITS_MAX: Final = 18
"""Most digits of a handle's last number: one with more is left."""


class Ack(NamedTuple):
    """An acknowledgement that was read.

    Attributes:
        offset: queue offset of the message.
        answer_end: where the response to it, and to all before it, ends.
    """

    offset: int
    answer_end: int


class AckPoint(NamedTuple):
    """The check point of neighbours; its texts are one after the other: group, topic, receipt handle.

    Attributes:
        texts_at, group_end, topic_end, handle_end: where the texts begin and end.
        acks_end: which acknowledgement is behind its last one; they stand side by side.
    """

    queue_id: int
    texts_at: int
    group_end: int
    topic_end: int
    handle_end: int
    acks_end: int


ACK: Final = np.dtype([(name, np.int64) for name in Ack._fields])
"""The dtype of an Ack."""
ACK_POINT: Final = np.dtype([(name, np.int64) for name in AckPoint._fields])
"""The dtype of an AckPoint."""


ACKS, POINTS, TEXTS, ANSWERS, CONSTANTS, BOUNDS = range(6)
"""The arrays of ``AckRows.table``."""


class AckRows:
    """Room for the acknowledgements of a socket read.

    Attributes:
        acks: ACK[], a row for each acknowledgement.
        points: ACK_POINT[], a row for each check point of neighbours.
        texts: the texts of the check points, ASCII.
        answers: the responses, which say that all is done.
        responses: encodes them.
        table: the arrays of all this: see ``ACKS`` and the others.
    """

    def __init__(self, count: int = ACKS_MAX, texts_size: int = TEXTS_SIZE) -> None:
        self.acks: NDArray[np.void] = np.zeros(count, ACK)
        self.points: NDArray[np.void] = np.zeros(count, ACK_POINT)
        self.texts: Bytes = np.zeros(texts_size, np.uint8)
        self.responses = EmptyResponses()
        self.answers: Bytes = np.empty(count * self.responses.size_max, np.uint8)
        around = joined((self.responses.before, self.responses.behind))
        self.table = ArrayTable(self.acks, self.points, self.texts, self.answers, *around)


class AckOps(Protocol):
    """The leaf operation on acknowledgements."""

    def read(self, frames: Frames, first: int, last: int, into: AckRows, /) -> int:
        """Read the acknowledgements of some frames from row ``first`` on, up to one that is unusual.

        So it stops at one whose handle has no last number, or for which there is no room. Two neighbours
        are of one check point if group, topic, queue and handle are the same but for the handle's last
        number, the message's offset.

        Args:
            frames: those of ``first`` up to before ``last`` are acknowledgements of one read.

        Returns:
            How many check points they are of; the last one's ``acks_end`` is how many acknowledgements there
            are.
        """
        ...
