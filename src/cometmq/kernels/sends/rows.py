"""Sends as the broker, the store and the leaf operation on them pass them to each other.

One call of the operation encodes the usual SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE frames of a turn of the
event loop: their records, queue entries and responses; nothing is done per message outside it, and little per
read. The records from all connections are written together. The operation has a plain body
(``plain``, the readable definition) and a compiled one (``compiled``); both do the same for the same
arguments. Frames that it leaves are handled as commands: see ``broker.requests.rare_sends``.
"""

from array import array
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from cometmq.format.properties import (
    CLUSTER,
    DELAY,
    IDEMPOTENCE_KEY,
    INNER_MULTI_QUEUE_OFFSET,
    MAX_LENGTH,
    MSG_REGION,
    POP_CK,
    TIMER_ASKS,
    TRACE_ON,
    TRANSACTION_PREPARED,
)
from cometmq.kernels.arrays import ArrayTable, Bytes, Longs, joined
from cometmq.kernels.frames.rows import READS_MAX, Frames
from cometmq.kernels.sends.send_topics import SendTopics
from cometmq.wire.frame import HEADER_LENGTH_MAX
from cometmq.wire.template import ResponseTemplate

SEND: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            "opaque",
            "is_binary",  # whether its header is a ROCKETMQ one, and so the response's
            "is_oneway",
            "message_count",  # 1, or the number of the batch's messages
            "is_batch",
            "flag",
            "sys_flag",
            "born_time",
            "reconsume_times",
            "topic_at",  # position in ``data``, as is body_at
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

RARE_IN_BATCHES: Final = frozenset(
    {TRANSACTION_PREPARED, DELAY, *TIMER_ASKS, IDEMPOTENCE_KEY, INNER_MULTI_QUEUE_OFFSET}
)
"""A batch is rare if one of its messages has one of these properties."""
RARE: Final = RARE_IN_BATCHES | {MSG_REGION, TRACE_ON, CLUSTER, POP_CK}
"""A send is rare if it has one of these properties: it asks for something, or the broker replaces them."""
SENDS_MAX: Final = 1024
"""From so many messages on, no further send is taken into a batch."""
BATCH_COUNT_MAX: Final = 4096
"""The most messages of a SEND_BATCH_MESSAGE; a larger one is left."""
MESSAGES_MAX: Final = SENDS_MAX + BATCH_COUNT_MAX
"""The most messages of a batch."""
RECORDS_SIZE_MAX: Final = 1 << 21
"""The most bytes of a batch's records; a send whose records take more is left."""
ANSWERS_SIZE_MAX: Final = 1 << 19
"""The most bytes of a batch's responses."""
ANSWER_SIZE_MAX: Final = 256
"""The most bytes of a response besides its constant parts, the unique key and further message ids."""
TEXTS_SIZE: Final = HEADER_LENGTH_MAX
"""The most bytes of a header, and so of its texts."""
OFFSET_DIGITS: Final = 16
"""The hex digits of a physical offset in a message id."""

ENTRY_COLUMNS: Final = 5
QUEUE, QUEUE_OFFSET, PHYSICAL_OFFSET, ENTRY_SIZE, TAGS_CODE = range(ENTRY_COLUMNS)
"""The columns of an entry's row."""

CONSTANTS, NUMBERS, SENDS, ROOM, NEXT_OFFSETS, ENTRIES, RUN_ENDS = range(7)
"""The arrays of ``SendBatch.table``."""

# The numbers of a batch: its limits, where it goes, how far it has come; then the bounds of the constants.
(
    BODY_LENGTH_MAX,
    PROPERTIES_LENGTH_MAX,  # of a producer's properties, so that the added ones fit too
    RECORDS_MAX,
    ANSWERS_MAX,
    FIRST_ROW,  # the row of the first message's entry
    BEGIN_OFFSET,  # the CommitLog offset of the first record
    FILE_ROOM,  # bytes left in the log's file, including those for a blank record
    STORE_TIME,  # ms since 1970
    SEND_COUNT,
    MESSAGE_COUNT,
    RECORDS_END,
    ANSWERS_END,
) = range(12)
BOUNDS: Final = 12
_STATE: Final = Struct(f"{BOUNDS - FIRST_ROW}q")

# The numbers of the constants behind those of responses.
HOST_ID: Final = 13
ADDED: Final = 14
STORE_HOST: Final = 15


class SendConstants(NamedTuple):
    """What is the same in all records and responses.

    Constant ``i`` is ``data[bounds[i]:bounds[i + 1]]``. The first ones are the parts of success responses
    around the values that differ::

        JSON     0 message id 1 queue id 2 queue offset 3 unique key 4 opaque 5
        binary   6 opaque 7 length of what follows 8 message id 9 queue id 10 queue offset 11 unique key 12

    Constant 13 is the beginning of each message id, the broker's address in hex; 14 the properties that the
    broker adds; 15 its address as in records.

    Attributes:
        data: uint8[].
        bounds: int64[constants + 1].
        template: encodes success responses.
        host_id: constant 13.
        added: constant 14.
        store_host: constant 15: packed address and port, 8 or 20 bytes.
    """

    data: Bytes
    bounds: Longs
    template: ResponseTemplate
    host_id: str
    added: bytes
    store_host: bytes


def constants_of(template: ResponseTemplate, added: bytes, store_host: bytes) -> SendConstants:
    """Join the constants.

    Args:
        template: of responses with message id, queue id, queue offset and unique key.
        added: the properties that the broker adds to each message.
        store_host: the broker's packed address and port, 8 or 20 bytes.
    """
    pieces, host_id = template.pieces(), store_host.hex().upper()
    assert len(pieces) == HOST_ID
    data, bounds = joined((*pieces, host_id.encode(), added, store_host))
    return SendConstants(data, bounds, template, host_id, added, store_host)


class SendBatch:
    """The usual sends that are encoded together; reused for the next ones.

    Args:
        topics: the topics that sends may go to.
        constants: see ``constants_of``.
        body_length_max: the most bytes of a body; sends with a longer one are left.
        records_max: the most bytes of records.
        answers_max: the most bytes of responses.

    Attributes:
        values: the numbers, see ``BODY_LENGTH_MAX`` and the others.
        numbers: int64[], the same memory.
        room: uint8[], the records, the responses, and scratch space for the unescaped texts of one send.
        send: SEND[1], the last send that the compiled body has parsed.
        next_offsets: int64[queues], for each queue's number its next queue offset; increased.
        entries: int64[n, 5], written from row FIRST_ROW on: see ``QUEUE`` and the others.
        run_ends: int64[], where the responses to the sends of each run end.
        table: the arrays of all this: see ``CONSTANTS`` and the others.
    """

    __slots__ = (
        "_room",
        "constants",
        "entries",
        "next_offsets",
        "numbers",
        "room",
        "run_ends",
        "send",
        "table",
        "topics",
        "values",
    )

    def __init__(
        self,
        topics: SendTopics[Any],
        constants: SendConstants,
        body_length_max: int,
        records_max: int = RECORDS_SIZE_MAX,
        answers_max: int = ANSWERS_SIZE_MAX,
    ) -> None:
        self.topics, self.constants = topics, constants
        limits = body_length_max, MAX_LENGTH - len(constants.added), records_max, answers_max
        self.values: array[int] = array(
            "q", (*limits, *[0] * (BOUNDS - len(limits)), *constants.bounds.tolist())
        )
        self.numbers: Longs = np.frombuffer(self.values, np.int64)
        self.room: Bytes = np.empty(records_max + answers_max + TEXTS_SIZE, np.uint8)
        self._room = self.room.data
        self.send = np.zeros(1, SEND)
        self.next_offsets: Longs = np.empty(0, np.int64)
        self.entries: Longs = np.empty((0, ENTRY_COLUMNS), np.int64)
        self.run_ends = array("q", bytes(8 * READS_MAX))
        self.table = ArrayTable(
            constants.data,
            self.numbers,
            self.send,
            self.room,
            self.next_offsets,
            self.entries,
            np.frombuffer(self.run_ends, np.int64),
        )

    def begin(
        self,
        next_offsets: Longs,
        entries: Longs,
        first_row: int,
        begin_offset: int,
        file_room: int,
        store_time: int,
    ) -> None:
        """Begin without sends: where those go that are encoded next.

        Args:
            next_offsets: as the attribute.
            entries: as the attribute.
            first_row: the row of the first message; there must be room for MESSAGES_MAX rows.
            begin_offset: CommitLog offset of the first record.
            file_room: how many bytes are left in the log's file, including those for a blank record.
            store_time: ms since 1970.
        """
        if next_offsets is not self.next_offsets:
            self.next_offsets = next_offsets
            self.table.put(NEXT_OFFSETS, next_offsets)
        if entries is not self.entries:
            self.entries = entries
            self.table.put(ENTRIES, entries)
        place = first_row, begin_offset, file_room, store_time
        _STATE.pack_into(self.values, 8 * FIRST_ROW, *place, 0, 0, 0, 0)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of sends and messages in the batch, and the bytes of their records."""
        values = self.values
        return values[SEND_COUNT], values[MESSAGE_COUNT], values[RECORDS_END]

    @property
    def message_count(self) -> int:
        """How many messages are in the batch."""
        return self.values[MESSAGE_COUNT]

    @property
    def records(self) -> memoryview:
        """The records, one after another; valid until the next ``begin``."""
        return self._room[: self.values[RECORDS_END]]

    def answers(self, begin: int = 0, end: int | None = None) -> bytes:
        """Return the responses, one frame after another, or a part of them; one-way sends have none."""
        base = self.values[RECORDS_MAX]
        return bytes(self._room[base + begin : base + (self.values[ANSWERS_END] if end is None else end)])

    def take_back(self) -> None:
        """Revert the queue offsets that were assigned, because the records could not be written."""
        row = self.values[FIRST_ROW]
        for queue in self.entries[row : row + self.message_count, QUEUE].tolist():
            self.next_offsets[queue] -= 1
        self.values[MESSAGE_COUNT] = 0


class SendOps(Protocol):
    """The leaf operation on sends."""

    def encode(self, batch: SendBatch, frames: Frames, hosts: bytes, /) -> None:
        """Encode the usual sends of each run of sends, up to the first other one, into a batch.

        Each run's ``done`` and ``commands_end`` are set, and in the batch where its responses end. Also a
        send that does not fit into the log's file is left; where there is no more room in the batch, nothing
        is. A SEND_BATCH_MESSAGE is encoded whole or not at all. A send in an unusual spelling may be left
        like one that is rare: what is made of it as a command is the same.

        Args:
            batch: its topics say where sends may go.
            hosts: for each run the client's host, as ``format.host.sized_host`` writes it.
        """
        ...
