"""Sends in bulk: the data that broker, store and the kernel of sends pass each other.

One socket read holds many SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE frames. One call of the kernel builds the
records, queue entries and responses of the usual ones; Python does nothing per message, and little per read.
The records from all connections in a turn of the event loop are written together. A frame with anything
unusual is left to the plain path, which defines what a send does.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cometmq.format.properties import MAX_LENGTH
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.sends.topic_table import TopicHashTable

SEND: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            "frame_end",
            "opaque",
            "is_binary",  # whether its header is a ROCKETMQ one, and so the response's
            "is_oneway",
            "message_count",  # 1, or the number of the batch's messages
            "is_batch",
            "flag",
            "sys_flag",
            "born_time",
            "reconsume_times",
            "topic_at",  # position in ``data``, as are body_at and frame_end
            "topic_length",
            "queue_id",
            "body_at",
            "body_length",
            "properties_at",  # position in ``texts``, of the unescaped properties, as is key_at; but in
            # ``data`` for a batch's message, whose flag, body and properties replace those of its batch
            "properties_length",
            "key_at",
            "key_length",
            "queue",  # the queue's number
            "queue_offset",
            "physical_offset",
            "size",
            "tags_code",
        )
    ]
)
"""The dtype of one parsed send; lengths and sizes in bytes, times in ms since 1970."""

SENDS_MAX: Final = 1024
"""From so many messages on, a call takes no further send."""
BATCH_COUNT_MAX: Final = 4096
"""The most messages of a batch; a larger one is left to the plain path."""
MESSAGES_MAX: Final = SENDS_MAX + BATCH_COUNT_MAX
"""The most messages that can be taken together."""
RECORDS_SIZE_MAX: Final = 1 << 21
"""The most bytes of records taken together; a send whose records take more is left to the plain path."""
ANSWERS_SIZE_MAX: Final = 1 << 19
"""The most bytes of responses to sends taken together."""
ANSWER_SIZE_MAX: Final = 256
"""The most bytes of a response besides its constant parts, the unique key and further message ids."""
TEXTS_SIZE: Final = 512 * 1024
"""The most bytes of a header, and so of its texts."""

QUEUE, QUEUE_OFFSET, PHYSICAL_OFFSET, ENTRY_SIZE, TAGS_CODE = range(5)
"""The columns of an entry's row."""

FIELD_COUNT: Final = 14
"""The number of a header's fields, "a" to "n"."""
PLACES_SIZE: Final = 2 * FIELD_COUNT + 3
"""The number of a header's positions: where each field begins and ends, and its three own numbers."""

# The numbers of the constants.
JSON_PIECES: Final = 0
BINARY_PIECES: Final = 6
HOST_ID: Final = 13
ADDED: Final = 14
STORE_HOST: Final = 15


class SendConstants(NamedTuple):
    """The bytes that are the same in all records and responses.

    Constant ``i`` is ``data[bounds[i]:bounds[i + 1]]``. The first ones are the parts of success responses
    around the values that differ::

        JSON     0 message id 1 queue id 2 queue offset 3 unique key 4 opaque 5
        binary   6 opaque 7 length of what follows 8 message id 9 queue id 10 queue offset 11 unique key 12

    Constant 13 is the beginning of each message id, the broker's address in hex; 14 the properties that the
    broker adds; 15 its address as in records.
    """

    data: Bytes
    bounds: Longs


def constants_of(pieces: Sequence[bytes], added: bytes, store_host: bytes) -> SendConstants:
    """Join the constants.

    Args:
        pieces: the parts of responses, see ``ResponseTemplate.pieces``.
        added: the properties that the broker adds to each message.
        store_host: the broker's packed address and port, 8 or 20 bytes.
    """
    assert len(pieces) == HOST_ID
    parts = [*pieces, store_host.hex().upper().encode(), added, store_host]
    data = np.frombuffer(b"".join(parts), np.uint8)
    return SendConstants(data, np.array([0, *accumulate(map(len, parts))]))


class SendOps(Protocol):
    """The bulk operation on sends; the plain path defines what it does."""

    def take(
        self,
        constants: Bytes,
        bounds: Longs,
        sends: NDArray[np.void],
        texts: Bytes,
        records: Bytes,
        answers: Bytes,
        places: Longs,
        body_length_max: int,
        properties_length_max: int,
        names: Bytes,
        rows: Longs,
        slots: Longs,
        cells: Longs,
        next_offsets: Longs,
        entries: Longs,
        first_row: int,
        physical_offset: int,
        file_room: int,
        store_time: int,
        data: bytes,
        start: int,
        born_host: bytes,
        count: int,
        size: int,
        answers_size: int,
    ) -> tuple[int, int, int, int, int]:
        """Build records, entries and responses of the sends from ``start`` on, up to the first other frame.

        A batch is taken whole or not at all. All arguments are passed by position, and the call builds no
        objects: with few sends in a read, that would be most of the cost.

        Args:
            constants, bounds: the fields of ``SendConstants``.
            sends: SEND[1], written: the last send that was parsed.
            texts: uint8[TEXTS_SIZE], scratch space for the unescaped texts of one send.
            records: uint8[RECORDS_SIZE_MAX], written: the records, one after another.
            answers: uint8[ANSWERS_SIZE_MAX], written: the responses, one frame after another.
            places: int64[PLACES_SIZE], scratch space for the positions of a header's fields.
            body_length_max: the most bytes of a body.
            properties_length_max: the most bytes of a producer's properties, so that the added ones fit too.
            names, rows, slots, cells: the arrays of a ``TopicHashTable``.
            next_offsets: int64[queues], for each queue's number its next queue offset; increased.
            entries: int64[n, 5], written from row ``first_row`` on: see ``QUEUE`` and the others.
            first_row: the row of the first message; there must be room for MESSAGES_MAX rows.
            physical_offset: CommitLog offset of the first record.
            file_room: how many bytes are left in the log's file, including those for a blank record.
            store_time: ms since 1970.
            data: what a socket read returned.
            start: position of the first frame.
            born_host: the client's packed address and port, 8 or 20 bytes.
            count: how many messages were taken before.
            size: bytes of their records.
            answers_size: bytes of the responses to them.

        Returns:
            Where the sends end that were taken; where the frames after them end that the plain path must
            handle (also a cut frame, and one that does not fit into the log's file), the same position if
            there is no more room; and the new ``count``, ``size`` and ``answers_size``.
        """
        ...


_NONE: Final = np.empty(0, np.int64)


class SendBatch:
    """The sends of one turn of the event loop; reused for each turn.

    Args:
        ops: the bulk operation.
        table: the topics that sends may go to.
        constants: see ``constants_of``.
        body_length_max: the most bytes of a body; sends with a longer one are left to the plain path.

    Attributes:
        count: how many messages were taken.
        size: how many bytes their records take.
        last: SEND[1], the last send that was parsed.
    """

    def __init__(
        self, ops: SendOps, table: TopicHashTable, constants: SendConstants, body_length_max: int
    ) -> None:
        self.count = self.size = self._answers_size = 0
        self.last = np.zeros(1, SEND)
        self._table = table
        self._next_offsets, self._rows = _NONE, _NONE
        added_length = int(constants.bounds[ADDED + 1] - constants.bounds[ADDED])
        records, answers = np.empty(RECORDS_SIZE_MAX, np.uint8), np.empty(ANSWERS_SIZE_MAX, np.uint8)
        self._records, self._answers = records.data, answers.data
        self._take = partial(
            ops.take,
            constants.data,
            constants.bounds,
            self.last,
            np.empty(TEXTS_SIZE, np.uint8),
            records,
            answers,
            np.empty(PLACES_SIZE, np.int64),
            body_length_max,
            MAX_LENGTH - added_length,
        )
        self._take_here: Callable[..., tuple[int, int, int, int, int]] = self._take

    def begin(
        self,
        next_offsets: Longs,
        entries: Longs,
        first_row: int,
        physical_offset: int,
        file_room: int,
        store_time: int,
    ) -> None:
        """Start a turn without sends, with the positions for the next ones: see ``SendOps.take``."""
        self.count = self.size = self._answers_size = 0
        self._next_offsets, self._rows, table = next_offsets, entries[first_row:], self._table
        self._take_here = partial(
            self._take,
            table.names,
            table.rows,
            table.slots,
            table.cells,
            next_offsets,
            entries,
            first_row,
            physical_offset,
            file_room,
            store_time,
        )

    def take(self, data: bytes, start: int, born_host: bytes) -> tuple[int, int, int]:
        """Build records and responses of the sends from ``start`` on, while they are usual and fit.

        Returns where they end; where the frames after them end that the plain path must handle; and where
        the responses to them end.
        """
        end, others_end, self.count, self.size, self._answers_size = self._take_here(
            data, start, born_host, self.count, self.size, self._answers_size
        )
        return end, others_end, self._answers_size

    @property
    def records(self) -> memoryview:
        """The records, one after another; valid until the next sends are taken."""
        return self._records[: self.size]

    def answers(self, begin: int = 0, end: int | None = None) -> bytes:
        """Return the responses, one frame after another, or a part of them; sends without one have none."""
        return bytes(self._answers[begin : self._answers_size if end is None else end])

    def take_back(self) -> None:
        """Revert the queue offsets that were assigned, because the records could not be written."""
        for queue in self._rows[: self.count, QUEUE].tolist():
            self._next_offsets[queue] -= 1
        self.count = 0
