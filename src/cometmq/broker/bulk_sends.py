"""Sends in bulk: the usual ones of a socket read, from their bytes to their answers without a loop in Python.

What is not usual, is refused or fails is left to ``send.Sends``, which is also the definition of what
happens here: the same bytes give the same records and the same answers.
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np
from msgspec.structs import replace

from cometmq import kernels
from cometmq.broker.additions import Additions
from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.rates import Rates
from cometmq.broker.targets import Targets
from cometmq.errors import StoreNotWritable
from cometmq.format.properties import MAX_LENGTH
from cometmq.kernels.sends import Answers, SendBatch, hosts_of
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader


class BulkSends:
    """Takes the usual sends (a ``net.server.BulkHandler``).

    Args:
        pieces: the constant parts of answers: see ``ResponseTemplate.pieces``.
        store_host: the broker's address as records hold it.
    """

    def __init__(
        self,
        store: MessageStore,
        targets: Targets,
        additions: Additions,
        rates: Rates,
        disk_waits: DiskWaits,
        pieces: list[bytes],
        store_host: bytes,
    ) -> None:
        self._store = store
        self._targets = targets
        self._rates = rates
        self._disk_waits = disk_waits if store.settings.sync_flush else None
        self._store_host = store_host
        self._added = additions.added
        self._answers = Answers(
            np.frombuffer(b"".join(pieces), np.uint8),
            np.array([0, *accumulate(map(len, pieces))]),
            np.frombuffer(store_host.hex().upper().encode(), np.uint8),
        )
        self._batch: SendBatch | None = None

    def take(self, session: Session, data: bytes, position: int) -> tuple[int, int]:
        """Store and answer the usual sends that begin at ``position``: see ``net.server.BulkHandler``."""
        batch, store = self._batch or self._begin(), self._store
        if batch is None:
            return position, len(data)
        frames = np.frombuffer(data, np.uint8)
        end, others_end = batch.read(
            frames, position, store.bulk.next_offsets, store.settings.max_message_size, MAX_LENGTH
        )
        if end == position:
            return end, others_end
        wanted, before, begun_ms = batch.count, store.written_offset, self._rates.put_times.begin()
        try:
            store.bulk.append(batch, hosts_of(session.born_host, self._store_host))
        except StoreNotWritable:
            return position, len(data)  # the plain path says why
        stored = batch.count
        self._rates.stored.total += stored
        self._rates.stored_bytes.total += store.written_offset - before
        if stored < wanted:  # the plain path makes the log's next file
            end = int(batch.sends[stored - 1]["frame_end"]) if stored else position
            others_end = int(batch.sends[stored]["frame_end"])
        if answers := batch.answers():
            if self._disk_waits is None:
                self._rates.put_times.end(begun_ms, stored)
                session.send(answers)
            else:
                answer = partial(_send, session, answers)
                self._disk_waits.add(self._rates.put_times.ending(begun_ms, stored, answer))
        return end, others_end

    def learn(self, messages: Sequence[NewMessage]) -> None:
        """Know the queues of messages that have been stored, so that their next ones can be taken here."""
        if self._batch is not None:
            for message in messages:
                number = self._store.bulk.queue_number(message.topic, message.queue_id)
                self._targets.learn(message.topic, message.queue_id, number)

    def _begin(self) -> SendBatch | None:
        """Begin once the kernels are there; never if queue entries are extended: the plain path does that."""
        if self._store.settings.enable_consume_queue_ext:
            return None
        if (ops := kernels.current().sends) is not None:
            self._batch = SendBatch(ops, self._targets.table, self._added, self._answers)
        return self._batch


def _send(session: Session, answers: bytes, unsafe: str | None) -> None:
    """Send success answers, turned into FLUSH_DISK_TIMEOUT if there is a reason ``unsafe``."""
    if unsafe is None:
        session.send(answers)
        return
    for answer in FrameReader().receive_data(answers):
        session.send(replace(answer, code=ResponseCode.FLUSH_DISK_TIMEOUT, remark=unsafe))
