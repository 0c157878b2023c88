"""Sends in bulk: the usual ones of a turn, batches too, from bytes to answers without a loop in Python.

What is not usual, is refused or fails is left to ``send.Sends``, which is also the definition of what
happens here: the same bytes give the same records and the same answers.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from cometmq import kernels
from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.fast_failure import FastFailure
from cometmq.broker.requests.additions import Additions
from cometmq.broker.requests.targets import Targets
from cometmq.broker.state.rates import Rates
from cometmq.errors import StoreNotWritable
from cometmq.kernels.sends.rows import SendBatch, constants_of
from cometmq.net.server import Session
from cometmq.net.turn import Read
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader


class BulkSends:
    """Takes the usual sends (a ``net.turn.BulkHandler``).

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
        fast_failure: FastFailure,
        pieces: list[bytes],
        store_host: bytes,
    ) -> None:
        self._store = store
        self._targets = targets
        self._rates = rates
        self._disk_waits = disk_waits if store.settings.sync_flush else None
        self._fast_failure = fast_failure
        self._constants = constants_of(pieces, additions.added, store_host)
        self._batch: SendBatch | None = None

    def take(self, reads: Sequence[Read]) -> None:
        """Store and answer the usual sends of a turn: see ``net.turn.BulkHandler``."""
        batch, begun_ms = self._batch or self._begin(), self._rates.put_times.begin()
        if (
            batch is None
            or not self._fast_failure.takes_all()
            or (taken := self._append(batch, reads)) is None
        ):
            for read in reads:
                read.commands_end = len(read.data)
            return
        answers, answered = [], 0
        for read, (read.position, read.commands_end, answers_end) in zip(reads, taken, strict=True):
            if answers_end > answered:
                answers.append((read.session, batch.answers(answered, answers_end)))
                answered = answers_end
        if batch.count:
            took_ms = self._rates.put_times.since(begun_ms)
            self._fast_failure.note_append(took_ms)
            self._rates.stored.total += batch.count
            self._rates.stored_bytes.total += batch.size
            self._answer(begun_ms, took_ms, batch.count, answers)

    def _append(self, batch: SendBatch, reads: Sequence[Read]) -> list[tuple[int, int, int]] | None:
        """Store the usual sends of a turn; None if the store takes none: the plain path says why."""
        try:
            return self._store.bulk.append(
                batch, [(read.data, read.position, read.session.born_host) for read in reads]
            )
        except StoreNotWritable:
            return None

    def _answer(
        self, begun_ms: int, took_ms: int, count: int, answers: Sequence[tuple[Session, bytes]]
    ) -> None:
        """Send answers, under SYNC_FLUSH once all is on the disk."""
        if self._disk_waits is None:
            self._rates.put_times.note(took_ms, count)
            _send(answers, None)
        elif answers:
            done = partial(_send, answers)
            self._disk_waits.add(self._rates.put_times.ending(begun_ms, count, done), count)

    def learn(self, messages: Sequence[NewMessage]) -> None:
        """Know the queues of messages that have been stored, so that their next ones can be taken here."""
        if self._batch is not None:
            for message in messages:
                number = self._store.bulk.queue_number(message.topic, message.queue_id)
                self._targets.learn(message.topic, message.queue_id, number)

    def _begin(self) -> SendBatch | None:
        """Begin once the kernels are there; never for what only the plain path does.

        That is to extend queue entries, and to end records in the property CRC.
        """
        settings = self._store.settings
        if settings.enable_consume_queue_ext or settings.enabled_append_prop_crc:
            return None
        if (ops := kernels.current().sends) is not None:
            size_max = self._store.settings.max_message_size
            self._batch = SendBatch(ops, self._targets.table, self._constants, size_max)
        return self._batch


def _send(answers: Sequence[tuple[Session, bytes]], unsafe: str | None) -> None:
    """Send success answers, turned into FLUSH_DISK_TIMEOUT if there is a reason ``unsafe``."""
    for session, frames in answers:
        if unsafe is None:
            session.send_at_once(frames)
            continue
        for answer in FrameReader().receive_data(frames):
            session.send(replace(answer, code=ResponseCode.FLUSH_DISK_TIMEOUT, remark=unsafe))
