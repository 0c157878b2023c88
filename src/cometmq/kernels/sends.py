"""Sends in bulk: what a broker, a store and the kernel of sends pass each other.

One socket read holds many SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE frames. Of those that are as nearly all are,
one call of the kernel makes records, queue entries and answers; nothing is done per message in Python, and
little per read. What all connections read in a turn of the loop is written together. A frame
with anything unusual about it is left to the plain path, which is the definition of what happens to a send.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cometmq.format.properties import MAX_LENGTH
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.topic_table import TopicTable

SEND: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            "frame_end",
            "opaque",
            "is_binary",  # whether the header is a ROCKETMQ one, and so the answer's
            "is_oneway",
            "message_count",  # 1, or how many messages the batch has
            "is_batch",
            "flag",
            "sys_flag",
            "born_time",
            "reconsume_times",
            "topic_at",  # in the data, as body_at and frame_end
            "topic_length",
            "queue_id",
            "body_at",
            "body_length",
            "properties_at",  # in the texts, where they stand unescaped, as the unique key does; of a batch's
            # message, whose flag, body and properties take the place of its batch's own, in the data
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
"""One send; lengths in bytes."""

SENDS_MAX: Final = 1024
"""When so many messages are taken, no more sends are."""
BATCH_COUNT_MAX: Final = 4096
"""The most messages of a batch; a larger one is none for this path."""
MESSAGES_MAX: Final = SENDS_MAX + BATCH_COUNT_MAX
"""So many messages are taken together at most."""
RECORDS_SIZE_MAX: Final = 1 << 21
ANSWERS_SIZE_MAX: Final = 1 << 19
"""So many bytes are made together. A send whose records take more is none for this path."""
ANSWER_SIZE_MAX: Final = 256
"""What an answer takes at most, but for its constant parts, the unique key and more ids than one."""
TEXTS_SIZE: Final = 512 * 1024
"""As long as a header can be: none of its texts is longer."""

QUEUE, QUEUE_OFFSET, PHYSICAL_OFFSET, ENTRY_SIZE, TAGS_CODE = range(5)
"""What the numbers of an entry's row are."""

FIELD_COUNT: Final = 14
"""The fields of a header, "a" to "n"."""
PLACES_SIZE: Final = 2 * FIELD_COUNT + 3
"""Where each field begins and ends, and the header's own numbers."""

# Which constants there are.
JSON_PIECES: Final = 0
BINARY_PIECES: Final = 6
HOST_ID: Final = 13
ADDED: Final = 14
STORE_HOST: Final = 15


class Constants(NamedTuple):
    """What is the same in all records and answers: ``data[bounds[i]:bounds[i + 1]]`` is the i-th constant.

    First come the parts of success answers around what differs in them::

        JSON     0 message id 1 queue id 2 queue offset 3 unique key 4 opaque 5
        binary   6 opaque 7 length of what follows 8 message id 9 queue id 10 queue offset 11 unique key 12

    Then 13 how each message id begins, the broker's address in hexadecimal digits; 14 the properties that
    the broker adds; 15 its address as records hold it.
    """

    data: Bytes
    bounds: Longs


def constants_of(pieces: Sequence[bytes], added: bytes, store_host: bytes) -> Constants:
    """Put the constants together.

    Args:
        pieces: the parts of answers, see ``ResponseTemplate.pieces``.
    """
    assert len(pieces) == HOST_ID
    parts = [*pieces, store_host.hex().upper().encode(), added, store_host]
    return Constants(np.frombuffer(b"".join(parts), np.uint8), np.array([0, *accumulate(map(len, parts))]))


class SendOps(Protocol):
    """The bulk operation on sends."""

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
        """Make records, entries and answers of the sends at ``start``, up to the first other frame.

        Gives where the sends end that are taken; where the frames after them end that are to be handled
        otherwise (a cut frame among them, and one that does not fit into the log's file), the same if there
        is no more room; and ``count``, ``size`` and ``answers_size`` as they are then. A batch is taken whole
        or not at all.

        All by position, and nothing that would have to be made or taken apart for the call: with few sends
        in a read that is what they cost.

        Args:
            constants: see ``Constants``, as for ``bounds``.
            sends: room for what is read of one, of dtype SEND.
            texts: gets what is read of one, without JSON's escapes.
            records: gets the records, one behind the other.
            answers: gets the answers, one frame behind the other.
            places: room for where the fields of a header are.
            properties_length_max: of what the producer sent, so that what is added fits too.
            names: see ``TopicTable``, as for ``rows``, ``slots`` and ``cells``.
            next_offsets: what the next message of each queue gets, by the queue's number; moved on.
            entries: gets a row for each message: see ``QUEUE`` and the others.
            first_row: where these rows begin; there must be room for MESSAGES_MAX.
            physical_offset: where the first record will lie in the CommitLog.
            file_room: how many bytes are left of its file; what a blank needs is left free.
            store_time: ms since the epoch.
            data: what was read.
            start: where the first send begins in it.
            born_host: whence they come: packed, 8 or 20 bytes.
            count: how many messages there are already.
            size: bytes of their records.
            answers_size: bytes of their answers.
        """
        ...


_NONE: Final = np.empty(0, np.int64)


class SendBatch:
    """The sends of one turn on their way; used again and again.

    Args:
        constants: see ``constants_of``.
        body_length_max: sends with a longer body are left.

    Attributes:
        count: how many messages were taken.
        size: how many bytes their records take.
        last: what was read of the last one that was looked at, of dtype SEND.
    """

    def __init__(self, ops: SendOps, table: TopicTable, constants: Constants, body_length_max: int) -> None:
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
        """Begin with no sends; say where the next ones go: see ``SendOps.take``."""
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
        """Take the sends at ``start`` as far as they are usual and there is room.

        Gives where they end; where the frames after them end that are to be handled otherwise; and where the
        answers to them end.
        """
        end, others_end, self.count, self.size, self._answers_size = self._take_here(
            data, start, born_host, self.count, self.size, self._answers_size
        )
        return end, others_end, self._answers_size

    @property
    def records(self) -> memoryview:
        """The records, one behind the other, until the next sends are taken."""
        return self._records[: self.size]

    def answers(self, begin: int = 0, end: int | None = None) -> bytes:
        """Give the answers to those that want one, one frame behind the other; or a part of them."""
        return bytes(self._answers[begin : self._answers_size if end is None else end])

    def take_back(self) -> None:
        """Give back the queue offsets that were taken: the records could not be written."""
        for queue in self._rows[: self.count, QUEUE].tolist():
            self._next_offsets[queue] -= 1
        self.count = 0
