"""SEND_MESSAGE, its V2 and batches. This is the hot path.

The usual sends of a turn are encoded by a leaf operation, from their frames to records and responses, and
appended together. Frames that it leaves come back as commands: a rare send is checked and rewritten, and
appended with its neighbours of the same socket read. All are counted and answered in the same way, under
SYNC_FLUSH once the disk has them, of a SYNC_MASTER once enough slaves have (``broker/safe_sends.py``)::

    frames ──► records, entries, responses ──► appended ──► counted ──► answered ◄── it is safe
       └─► commands ──► checked ──► messages ──────┘ │                     ▲
              ▲           └► refused                 └► refused            └── its topic is known
              └── (its topic is saved)

(RocketMQ: SendMessageProcessor.java.)
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from cometmq.broker.fast_failure import FastFailure
from cometmq.broker.refused import code_of
from cometmq.broker.requests.early_sends import EarlySends
from cometmq.broker.requests.rare_sends import RareSend, RareSends
from cometmq.broker.requests.runs import ReadRun
from cometmq.broker.requests.targets import Targets
from cometmq.broker.safe_sends import REJECTED, TOO_FEW, SafeSends, Unsafe
from cometmq.broker.settings_by_subject import FlowSettings, OverloadSettings
from cometmq.broker.state.rates import Rates
from cometmq.errors import CometMQError, MessageIllegal, StoreNotWritable
from cometmq.format.message_id import OFFSET_ID
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import SendBatch, constants_of
from cometmq.kernels.sends.send_topics import NO_QUEUE
from cometmq.net.server import Session
from cometmq.store.append import Appended, NewMessage
from cometmq.store.queue.next_offsets import GONE
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import RESPONSE_HEADER_LENGTH_MAX, Command, encode, response
from cometmq.wire.template import ResponseTemplate

_NAMES: Final = ("msgId", "queueId", "queueOffset", "transactionId")

Answer = tuple[Callable[[bytes], None], bytes]
"""What sends response frames, and the frames."""


class Sends:
    """Stores producers' messages and responds.

    Args:
        constants: fields that each response carries.

    Attributes:
        safe: whether sends are taken, and who waits until messages are safe.
    """

    def __init__(
        self,
        store: MessageStore,
        targets: Targets,
        rare: RareSends,
        safe: SafeSends,
        rates: Rates,
        overload: OverloadSettings,
        flow: FlowSettings,
        *,
        constants: dict[str, str],
    ) -> None:
        self._store = store
        self._targets = targets
        self._rates = rates
        self._idempotence = rare.idempotence
        self._store_host = rare.store_host
        self._constants = constants
        self._template = ResponseTemplate(_NAMES, constants)
        self.safe = safe
        self._fast_failure = FastFailure(overload, store.settings.os_page_cache_busy_time_out_mills, safe)
        self._rare = rare
        self._early = EarlySends(self.handle, self._refuse, flow.early_bytes_total_max)
        self._batch = SendBatch(
            targets.table,
            constants_of(self._template, rare.added, rare.store_host),
            store.settings.max_message_size,
        )

    def take(self, ops: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Store and answer the usual sends of a turn: see ``broker.requests.runs.Taker``."""
        begun_ms, batch, appending = self._rates.put_times.begin(), self._batch, self._store.appending
        failure, safe = self._fast_failure, self.safe
        is_full = safe.is_waiting_needed and safe.count >= failure.capacity
        are_taken = appending.are_usual and safe.are_taken and not is_full and not failure.slow_append_ms
        message_count = 0
        if are_taken:
            hosts = b"".join([read.session.sized_born_host for read, _ in runs])
            try:
                message_count = appending.sends(ops.sends, batch, frames, hosts)
            except StoreNotWritable:  # ``handle`` says why
                are_taken = False
            except BaseException:
                _leave(runs)
                raise
        if not are_taken:
            _leave(runs)
        elif message_count:
            answers: list[Answer] = []
            answered = 0
            for (read, _), answers_end in zip(runs, batch.run_ends, strict=False):
                if answers_end > answered:
                    answers.append((read.session.send_at_once, batch.answers(answered, answers_end)))
                    answered = answers_end
            send_count, _, size = batch.counts
            self._rates.send_rows[ops.body] += send_count
            took_ms = self._count(begun_ms, message_count, size)
            if safe.is_waiting_needed:
                self._answer_when_safe(begun_ms, message_count, answers, send_count)
            else:
                _send(answers)
                self._rates.put_times.note(took_ms, message_count)

    def handle(self, session: Session, commands: Sequence[Command]) -> None:
        """Store and answer sends of one socket read that came as commands."""
        why = self._fast_failure.refusal(session, len(commands)) if not self.safe.is_slave else REJECTED
        if why is not None:
            for command in commands:
                self._refuse(session, command, ResponseCode.SYSTEM_BUSY, why)
            return
        sends: list[RareSend] = []
        for command in commands:
            try:
                header, target, queue_id = self._rare.target_of(command)
                if target.creation is not None and not target.creation.is_saved:
                    self._early.add(target.creation, session, command)
                    continue
                send = self._rare.checked(session, command, header, target, queue_id)
            except CometMQError as error:
                self._refuse(session, command, code_of(error), str(error))
                continue
            if self.safe.are_too_few and send.waits:
                self._refuse(session, command, ResponseCode.SYSTEM_ERROR, TOO_FEW)
                continue
            self._rates.rare_sends += 1
            if not send.keys:
                sends.append(send)
                continue
            self._append(session, sends)
            self._append_new(session, send)
            sends = []
        self._append(session, sends)

    def _append(self, session: Session, sends: Sequence[RareSend]) -> None:
        """Append and answer rare sends."""
        if not sends:
            return
        begun_ms = self._rates.put_times.begin()
        messages = [message for send in sends for message in send.messages]
        try:
            appended = self._store.append(messages)
        except StoreNotWritable as error:
            for send in sends:
                self._refuse(session, send.command, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        except MessageIllegal as error:
            if len(sends) == 1:
                self._refuse(session, sends[0].command, ResponseCode.MESSAGE_ILLEGAL, str(error))
                return
            for send in sends:  # one of them is to blame, the others are not
                self._append(session, [send])
        else:
            self._count_rare(begun_ms, messages, appended)
            self._answer(session, begun_ms, sends, appended)

    def _append_new(self, session: Session, send: RareSend) -> None:
        """Append what of a send with idempotence keys is new; for the rest answer where the first is.

        That is written before: so if answers wait for the disk, it is there by then.
        """
        begun_ms, end = self._rates.put_times.begin(), self._store.written_offset

        def append(new: Sequence[NewMessage]) -> list[Appended]:
            appended = self._store.append(new)
            self._count_rare(begun_ms, new, appended)
            return appended

        try:
            places = self._idempotence.append(send.keys, send.queue_id, send.messages, append)
        except (StoreNotWritable, MessageIllegal) as error:
            self._refuse(session, send.command, code_of(error), str(error))
            return
        send = send._replace(queue_id=places[0].queue_id)
        if places[0].appended.physical_offset < end:  # the handle of the first one takes that back
            send = send._replace(recall_handle=None)
        self._answer(session, begun_ms, [send], [place.appended for place in places])

    def _count_rare(
        self, begun_ms: int, messages: Sequence[NewMessage], appended: Sequence[Appended]
    ) -> None:
        """Count messages that were appended; know their queues, so that the next ones there are usual."""
        self._count(begun_ms, len(messages), self._store.written_offset - appended[0].physical_offset)
        table, appending = self._targets.table, self._store.appending
        next_offsets = appending.next_offsets.values
        for topic, queue_id in {(message.topic, message.queue_id) for message in messages}:
            number = table.queues.get(topic, {}).get(queue_id, NO_QUEUE)
            if number == NO_QUEUE or next_offsets[number] == GONE:
                self._targets.learn(topic, queue_id, appending.queue_number(topic, queue_id))

    def _count(self, begun_ms: int, message_count: int, size: int) -> int:
        """Count messages that were appended; returns how long that took, ms."""
        took_ms = self._rates.put_times.since(begun_ms)
        if took_ms > self._fast_failure.page_cache_busy_ms:
            self._fast_failure.note_slow_append(took_ms)
        self._rates.stored.total += message_count
        self._rates.stored_bytes.total += size
        return took_ms

    def _answer(
        self, session: Session, begun_ms: int, sends: Sequence[RareSend], appended: Sequence[Appended]
    ) -> None:
        """Answer rare sends: at once, or those that want to wait once their messages are safe."""
        at_once: list[Answer] = []
        waiting: list[Answer] = []
        waiting_count = begin = 0
        for send in sends:
            end = begin + len(send.messages)
            is_waiting = self.safe.is_waiting_needed and send.waits
            waiting_count += is_waiting
            if not send.command.is_oneway:
                answer = _sender(session, send), self._encoded(send, appended[begin:end])
                (waiting if is_waiting else at_once).append(answer)
            begin = end
        _send(at_once)
        if waiting_count:
            self._answer_when_safe(begun_ms, len(appended), waiting, waiting_count)
        else:
            self._rates.put_times.end(begun_ms, len(appended))

    def _encoded(self, send: RareSend, appended: Sequence[Appended]) -> bytes:
        """Encode the success response to a rare send."""
        first, host_id = appended[0], self._batch.constants.host_id
        ids = OFFSET_ID % (host_id, first.physical_offset)
        if len(appended) > 1:
            ids = ",".join([OFFSET_ID % (host_id, one.physical_offset) for one in appended])
        values = (ids, str(send.queue_id), str(first.queue_offset), send.unique_key)
        if send.recall_handle is None:
            return self._template.encode(send.command, values)
        fields = dict(zip(_NAMES, values, strict=True)) | self._constants
        return encode(response(send.command, ext_fields=fields | {"recallHandle": send.recall_handle}))

    def _answer_when_safe(
        self, begun_ms: int, message_count: int, answers: Sequence[Answer], send_count: int
    ) -> None:
        """Answer sends once their messages are safe, or with what is not sure."""
        done = self._rates.put_times.ending(begun_ms, message_count, partial(_send, answers))
        self.safe.add(done, send_count)

    def _refuse(self, session: Session, command: Command, code: ResponseCode, remark: str) -> None:
        self._rates.refused.total += 1
        if not command.is_oneway:
            session.send(response(command, code, remark, self._constants))


def _leave(runs: Sequence[ReadRun]) -> None:
    """Leave all sends of some runs to be commands."""
    for _, run in runs:
        run.done, run.commands_end = run.first, run.last


def _sender(session: Session, send: RareSend) -> Callable[[bytes], None]:
    """Return what sends a response: not before what creates the topic is known, see ``Target``."""
    creation = send.target.creation
    if creation is None:
        return session.send
    return lambda answer: creation.when_known(partial(session.send, answer))


def _send(answers: Sequence[Answer], unsafe: Unsafe | None = None) -> None:
    """Send success responses, turned into FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT if they are unsafe."""
    for send, frames in answers:
        if unsafe is None:
            send(frames)
            continue
        for one in FrameReader(RESPONSE_HEADER_LENGTH_MAX).receive_data(frames):
            send(encode(response(one, *unsafe, one.ext_fields)))
