"""Sends in bulk: the arrays that a broker, a store and the kernels pass each other.

One socket read holds many SEND_MESSAGE_V2 frames. ``read`` finds those that are as nearly all are, ``encode``
makes their records, ``answer`` their answers; nothing is done per message in Python. A frame with anything
unusual about it is left to the plain path, which is the definition of what happens to a send.
"""

from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cometmq.format.record import HEAD_MAX_SIZE
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
            "flag",
            "sys_flag",
            "born_time",
            "reconsume_times",
            "topic_at",  # in the data, as body_at and frame_end
            "topic_length",
            "queue_id",
            "body_at",
            "body_length",
            "properties_at",  # in the texts, where they stand unescaped, as the unique key does
            "properties_length",
            "key_at",
            "key_length",
            # The queue entry. Offsets and size are known once the record is made.
            "queue",  # the queue's number
            "queue_offset",
            "physical_offset",
            "size",
            "tags_code",
        )
    ]
)
"""One send; lengths in bytes."""
_NUMBERS: Final = SEND.itemsize // 8
ENTRY_COLUMNS: Final = slice(_NUMBERS - 5, _NUMBERS)
"""Where the queue entries are if sends are looked at as rows of numbers."""
assert SEND.names is not None and SEND.names[ENTRY_COLUMNS][0] == "queue"

SENDS_MAX: Final = 1024
"""So many sends are taken together."""
RECORD_GROWTH_MAX: Final = HEAD_MAX_SIZE + 128 + 8
"""By so much a record can be longer than body, properties and what the broker adds to them."""
ANSWER_SIZE_MAX: Final = 256
"""What an answer takes at most, but for its constant parts and the unique key."""


_HOSTS_KNOWN_MAX: Final = 1024


class Answers(NamedTuple):
    """The constant parts of success answers: ``pieces[bounds[i]:bounds[i + 1]]`` is the i-th.

    ::

        JSON     0 message id 1 queue id 2 queue offset 3 unique key 4 opaque 5
        binary   6 opaque 7 length of what follows 8 message id 9 queue id 10 queue offset 11 unique key 12

    Attributes:
        host_id: how each message id begins: the broker's address in hexadecimal digits.
    """

    pieces: Bytes
    bounds: Longs
    host_id: Bytes


class Hosts(NamedTuple):
    """Whence messages come and where they are stored: packed, 8 or 20 bytes."""

    born: Bytes
    store: Bytes


@lru_cache(_HOSTS_KNOWN_MAX)
def hosts_of(born: bytes, store: bytes) -> Hosts:
    """Give packed hosts as arrays; each connection's come again and again."""
    return Hosts(np.frombuffer(born, np.uint8), np.frombuffer(store, np.uint8))


class SendOps(Protocol):
    """The bulk operations on sends."""

    def read(
        self,
        data: Bytes,
        start: int,
        batch: NDArray[np.void],
        texts: Bytes,
        table: TopicTable,
        next_offsets: Longs,
        body_length_max: int,
        properties_length_max: int,
    ) -> tuple[int, int, int]:
        """Read the sends that begin at ``start`` into ``batch`` and ``texts``, up to the first other frame.

        Gives how many there are, where they end, and where the frames after them end that are to be handled
        otherwise (a cut frame among them).

        Args:
            properties_length_max: of what the producer sent, so that what is added fits too.
        """
        ...

    def encode(
        self,
        data: Bytes,
        batch: NDArray[np.void],
        count: int,
        texts: Bytes,
        added: Bytes,
        hosts: Hosts,
        next_offsets: Longs,
        physical_offset: int,
        room: int,
        store_time: int,
        records: Bytes,
    ) -> tuple[int, int]:
        """Encode the first ``count`` records one behind the other, as far as they fit; number the messages.

        Gives how many fit, and how many bytes they take.

        Args:
            added: the properties that the broker adds.
            room: bytes that are left in the CommitLog's file; what a blank needs is left free.
        """
        ...

    def answer(
        self, batch: NDArray[np.void], count: int, texts: Bytes, answers: Answers, frames: Bytes
    ) -> int:
        """Encode the answers to those of the first ``count`` sends that want one; give how long they are."""
        ...


class SendBatch:
    """The sends of one socket read on their way, and room for what is made of them; used again and again.

    Attributes:
        data: the socket read.
        sends: of dtype SEND; the first ``count`` count.
        entries: the same memory, only what queue entries are made of: a row of numbers for each.
    """

    def __init__(self, ops: SendOps, table: TopicTable, added: bytes, answers: Answers) -> None:
        self.count = 0
        self.data: Bytes = np.empty(0, np.uint8)
        self.sends = np.zeros(SENDS_MAX, SEND)
        self.entries: Longs = self.sends.view(np.int64).reshape(SENDS_MAX, _NUMBERS)[:, ENTRY_COLUMNS]
        self._ops = ops
        self._table = table
        self._added = np.frombuffer(added, np.uint8)
        self._answers = answers
        self._texts = np.empty(1 << 16, np.uint8)
        self._room = np.empty(1 << 18, np.uint8)

    def read(
        self, data: Bytes, start: int, next_offsets: Longs, body_length_max: int, properties_length_max: int
    ) -> tuple[int, int]:
        """Take the sends at ``start``: gives where they end, and where the other frames after them end."""
        if len(self._texts) < len(data):
            self._texts = np.empty(len(data), np.uint8)
        self.data = data
        self.count, end, others_end = self._ops.read(
            data,
            start,
            self.sends,
            self._texts,
            self._table,
            next_offsets,
            body_length_max,
            properties_length_max - len(self._added),
        )
        return end, others_end

    def encode(
        self, hosts: Hosts, next_offsets: Longs, physical_offset: int, room: int, store_time: int
    ) -> memoryview:
        """Give the records that fit into ``room``; ``count`` becomes how many that are."""
        most = len(self.data) + self.count * (RECORD_GROWTH_MAX + len(self._added))
        self.count, size = self._ops.encode(
            self.data,
            self.sends,
            self.count,
            self._texts,
            self._added,
            hosts,
            next_offsets,
            physical_offset,
            room,
            store_time,
            self._with_room(most),
        )
        return self._room.data[:size]

    def take_back(self, next_offsets: Longs) -> None:
        """Give back the queue offsets that ``encode`` took: the records could not be written."""
        for queue in self.sends["queue"][: self.count].tolist():
            next_offsets[queue] -= 1

    def answers(self) -> bytes:
        """Give the answers, one frame behind the other."""
        most = len(self.data) + self.count * (ANSWER_SIZE_MAX + len(self._answers.pieces))
        room = self._with_room(most)
        size = self._ops.answer(self.sends, self.count, self._texts, self._answers, room)
        return bytes(room.data[:size])

    def _with_room(self, size: int) -> Bytes:
        if len(self._room) < size:
            self._room = np.empty(size, np.uint8)
        return self._room
