"""The operation on sends in plain Python: the definition, which serves until the compiled one is loaded."""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from cometmq.errors import CometMQError
from cometmq.format import properties
from cometmq.format.host import SIZED_HOST_SIZE
from cometmq.format.java.java_hash import tags_code
from cometmq.format.message_id import OFFSET_ID
from cometmq.format.properties import (
    TAGS,
    UNIQ_KEY,
    VALUE_END,
    WAIT,
)
from cometmq.format.record import END_FILE_MIN_BLANK, encode_fields
from cometmq.format.sys_flag import TRANSACTION_MASK
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import Frames, ReadFrames
from cometmq.kernels.sends import rows as r
from cometmq.kernels.sends.rows import SendBatch
from cometmq.kernels.sends.send_topics import NO_QUEUE
from cometmq.wire import batch as batches
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import SendHeaderV2, parse

_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_ENTRY: Final = Struct("5q")
_TAGS_LENGTH_MAX: Final = 100
_TAGS_KNOWN_MAX: Final = 10_000
_END: Final = VALUE_END.encode()

_Message: TypeAlias = tuple[bytes, bytes, int, str | None]
"""A message's body, its properties as they are stored, its flag and its tags."""
_UsualSend: TypeAlias = tuple[Command, SendHeaderV2, int, str, Sequence[_Message], bool]
"""A send: its queue's number, its unique key, its message or those of its batch, and whether one is rare."""


class PlainSends:
    """The plain body of the operation (a ``rows.SendOps``)."""

    def encode(self, batch: SendBatch, frames: Frames, hosts: bytes, /) -> None:
        """Encode the usual sends of all runs of sends: see ``rows.SendOps.encode``."""
        encoder = _Encoder(batch)
        runs = [run for run in frames.runs[: frames.read_count] if run.kind == FrameKind.SEND]
        try:
            for number, run in enumerate(runs):
                host_at = number * SIZED_HOST_SIZE
                encoder.encode(frames, run, hosts[host_at + 1 : host_at + 1 + hosts[host_at]])
                batch.run_ends[number] = encoder.answers_end
        finally:  # also what has queue offsets when something fails, so that they can be taken back
            encoder.store()


class _Encoder:
    """Encodes sends into a batch, which gets them by ``store``.

    Attributes:
        answers_end: where the responses to all sends of the batch end.
    """

    def __init__(self, batch: SendBatch) -> None:
        self._batch = batch
        self._values = values = batch.values
        self._constants = constants = batch.constants
        self._next_offsets = batch.next_offsets.data
        self._records: list[bytes] = []
        self._answers: list[bytes] = []
        self._sends = values[r.SEND_COUNT]
        self._count = values[r.MESSAGE_COUNT]
        self._records_end = values[r.RECORDS_END]
        self.answers_end = values[r.ANSWERS_END]
        self._answer_size = r.ANSWER_SIZE_MAX + len(constants.data)
        self._id_size = len(constants.host_id) + r.OFFSET_DIGITS + 1

    def encode(self, frames: Frames, run: ReadFrames, born_host: bytes) -> None:
        """Encode the usual sends of a run; set where they end, and those behind them that are left."""
        values = self._values
        run.done, run.commands_end = run.first, run.last
        for number in range(run.first, run.last):
            if self._count >= r.SENDS_MAX:
                run.commands_end = run.done
                return
            send = self._usual(frames.request(number))
            if send is None:
                continue
            if number > run.done:  # others lie between
                run.commands_end = number
                return
            records, ids, size = self._encoded(send, born_host)
            records_end = self._records_end + size
            if records_end + END_FILE_MIN_BLANK > values[r.FILE_ROOM]:
                run.commands_end = number + 1
                return
            command, header, queue, unique_key, _, is_rare = send
            answer_size = self._answer_size + len(unique_key) + len(ids) * self._id_size
            if records_end > values[r.RECORDS_MAX] or self.answers_end + answer_size > values[r.ANSWERS_MAX]:
                run.commands_end = run.done if self._count else number + 1
                return
            if is_rare:
                continue
            if not command.flag & ONEWAY_FLAG:
                offset = str(self._next_offsets[queue])
                fields = ",".join(ids), str(header.queue_id), offset, unique_key
                self._answers.append(answer := self._constants.template.encode(command, fields))
                self.answers_end += len(answer)
            self._next_offsets[queue] += len(records)
            self._records += records
            self._records_end = records_end
            self._count += len(records)
            self._sends += 1
            run.done = number + 1

    def store(self) -> None:
        """Write what was encoded to the batch."""
        self._write(self._records, 0, r.RECORDS_END)
        self._write(self._answers, self._values[r.RECORDS_MAX], r.ANSWERS_END)
        self._values[r.SEND_COUNT], self._values[r.MESSAGE_COUNT] = self._sends, self._count

    def _write(self, parts: Sequence[bytes], base: int, end: int) -> None:
        """Write records or responses behind those in the batch, whose number ``end`` moves on."""
        if parts:
            data, begin = b"".join(parts), base + self._values[end]
            self._batch.room.data[begin : begin + len(data)] = data
            self._values[end] += len(data)

    def _usual(self, command: Command) -> _UsualSend | None:
        """Check the send that a command asks for; None if it is not a usual one."""
        if len(command.body) > self._values[r.BODY_LENGTH_MAX]:
            return None
        try:
            header = parse(SendHeaderV2, command.ext_fields)
            encoded = header.properties.encode()
        except (CometMQError, UnicodeEncodeError):
            return None  # as a command it is refused
        queue = self._batch.topics.queues.get(header.topic, {}).get(header.queue_id, NO_QUEUE)
        if queue < 0 or self._next_offsets[queue] < 0 or header.sys_flag & TRANSACTION_MASK:
            return None
        if not encoded.endswith(_END) or len(encoded) > self._values[r.PROPERTIES_LENGTH_MAX]:
            return None
        named = properties.parse(header.properties)
        unique_key = named.get(UNIQ_KEY, "")
        if not (unique_key.isascii() and unique_key.isalnum()) or named.get(WAIT, "true") != "true":
            return None
        if not r.RARE.isdisjoint(named):
            return None
        if header.batch or command.code == _BATCH_CODE:
            return _with_members(command, header, queue, unique_key)
        message = command.body, encoded + self._constants.added, header.flag, named.get(TAGS)
        return command, header, queue, unique_key, (message,), False

    def _encoded(self, send: _UsualSend, born_host: bytes) -> tuple[list[bytes], list[str], int]:
        """Return the records of a send, its messages' ids and the records' size; write the queue entries."""
        _, header, queue, _, messages, _ = send
        values, constants, entries = self._values, self._constants, self._batch.entries.data
        queue_offset = self._next_offsets[queue]
        begin = physical_offset = values[r.BEGIN_OFFSET] + self._records_end
        row_at = (values[r.FIRST_ROW] + self._count) * _ENTRY.size
        records: list[bytes] = []
        ids: list[str] = []
        for body, stored_properties, flag, tags in messages:
            record = encode_fields(
                header.topic,
                body,
                stored_properties,
                header.queue_id,
                queue_offset,
                physical_offset,
                flag,
                header.sys_flag,
                header.born_time,
                born_host,
                values[r.STORE_TIME],
                constants.store_host,
                header.reconsume_times,
            )
            size = len(record)
            records.append(record)
            ids.append(OFFSET_ID % (constants.host_id, physical_offset))
            _ENTRY.pack_into(entries, row_at, queue, queue_offset, physical_offset, size, _tags_code(tags))
            queue_offset += 1
            physical_offset += size
            row_at += _ENTRY.size
        return records, ids, physical_offset - begin


def _with_members(command: Command, header: SendHeaderV2, queue: int, unique_key: str) -> _UsualSend | None:
    """Return a send with the messages of its batch, None if that is malformed or too long."""
    try:
        members = batches.decode(command.body)
    except CometMQError:
        return None
    if len(members) > r.BATCH_COUNT_MAX:
        return None
    named = [properties.decode(member.properties) for member in members]
    is_rare = not all(map(r.RARE_IN_BATCHES.isdisjoint, named))
    messages = [
        (body, stored, flag, one.get(TAGS)) for (body, stored, flag), one in zip(members, named, strict=True)
    ]
    return command, header, queue, unique_key, messages, is_rare


def _tags_code(tags: str | None) -> int:
    """Return the hash of a message's tags; those of short ones are kept."""
    return _short_tags_code(tags) if tags is None or len(tags) <= _TAGS_LENGTH_MAX else tags_code(tags)


_short_tags_code: Final = lru_cache(_TAGS_KNOWN_MAX)(tags_code)
