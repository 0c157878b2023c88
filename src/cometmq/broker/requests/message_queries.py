"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages found by key, by unique key and by offset id.

Queries become rows, read from the bytes of a turn. Keys are looked up in the index, and what is found is
answered together. What the store's leaf operations leave, and a query that comes as a command, is read by a
reading, which may wait for the disk::

    frames ─► rows ─► looked up ─► answered
                           │  └──► refused: there is no such message
    command ───────────────┴─────► read by a reading ─► answered or refused

RocketMQ's broker also returns records of which only the hash of topic and key is the same.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.requests.runs import ReadRun
from cometmq.broker.state.rates import Rates
from cometmq.format.dispatch import KeyKind
from cometmq.kernels.frames.rows import Frames, ReadFrames
from cometmq.kernels.ops import Ops
from cometmq.kernels.queries.rows import (
    QUERIES_MAX,
    UNIQUE_COUNT,
    QueryRow,
    QueryState,
    constants_of,
)
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.store.read.query import QueryResult
from cometmq.store.reading import Reading
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, SerializeType, response
from cometmq.wire.headers import (
    QueryMessageHeader,
    QueryMessageResponseHeader,
    ViewMessageHeader,
    fields,
    parse,
)
from cometmq.wire.template import NumbersTemplate

QueryHeader: TypeAlias = QueryMessageHeader | ViewMessageHeader
LastUpdate: TypeAlias = tuple[int, int]
"""Store time and CommitLog offset of the newest record that is in the index."""

_FOUND_BY_ID: Final = NumbersTemplate(None, ())
_FOUND_BY_KEY: Final = NumbersTemplate(None, ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"))
"""What ``QueryMessageResponseHeader`` says of a query that finds something."""
_SERIALIZE_TYPES: Final = tuple(SerializeType)
_ANSWERED: Final = int(QueryState.ANSWERED)
_NOTHING: Final = int(QueryState.NOTHING)


class _QueriesOfRun(NamedTuple):
    """The queries of a run that are looked up: from which row to before which they are."""

    session: Session
    run: ReadFrames
    begin: int
    end: int


class MessageQueries:
    """Answers queries for messages."""

    def __init__(self, store: MessageStore, reads: Reads, rates: Rates) -> None:
        self._store = store
        self._reads = reads
        self._rates = rates
        self._finds = store.readings.finds
        self._last_update: LastUpdate = 0, 0
        self._constants = constants_of((_FOUND_BY_ID, ()), (_FOUND_BY_KEY, self._last_update))

    def take(self, ops: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Answer the queries of a turn: see ``broker.requests.runs.Taker``."""
        asked: list[_QueriesOfRun] = []
        queries = self._finds.begin()
        for read, run in runs:
            begin = queries.count
            if read.session.congested:
                run.commands_end = run.last
            elif begin < QUERIES_MAX:  # else its turn comes when these are answered
                if count := ops.queries.read(frames, run.first, run.last, queries):
                    asked.append(_QueriesOfRun(read.session, run, begin, begin + count))
                else:
                    run.commands_end = run.first + 1
        if asked:
            self._rates.query_rows[ops.body] += queries.count
            self._answer(frames, asked)

    def handlers(self) -> Handlers:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_MESSAGE: self.handle,
            RequestCode.VIEW_MESSAGE_BY_ID: self.handle,
        }

    def handle(self, session: Session, command: Command, header: QueryHeader) -> None:
        """Answer a query that came as a command."""
        if command.is_oneway:
            return  # nobody would take what it finds
        self._rates.query_commands += 1
        self._read_when_drained(session, command, header)

    def _answer(self, frames: Frames, asked: Sequence[_QueriesOfRun]) -> None:
        """Look up and answer the queries that were added."""
        last_update = self._finds.look_up()
        if last_update is not None and last_update != self._last_update:
            self._last_update = last_update
            self._constants = constants_of((_FOUND_BY_ID, ()), (_FOUND_BY_KEY, last_update))
        first = 0
        for begin, end in self._finds.answer(self._constants):
            states = self._finds.queries.states[begin:end].tolist()
            while first < len(asked) and asked[first].begin < end:
                self._send(frames, asked[first], begin, states)
                if asked[first].end > end:
                    break  # there was no room for its other responses
                first += 1

    def _send(self, frames: Frames, asked: _QueriesOfRun, first: int, states: list[int]) -> None:
        """Send the responses to the queries of one run, those that lie side by side together.

        Args:
            first: the first row that is done with.
            states: the states of these rows.
        """
        run, session, rows = asked.run, asked.session, self._finds.queries.rows
        begin, end = max(asked.begin, first), min(asked.end, first + len(states))
        if session.congested or run.done != rows[begin].frame:
            return  # the peer is to take its responses first: these queries are read again
        run.done = run.commands_end = rows[end - 1].frame + 1
        sent = rows[begin - 1].answer_end if begin > first else 0
        others = states[begin - first : end - first]
        if others.count(_ANSWERED) == len(others):  # nearly always
            others = []
        for number, state in enumerate(others, begin):
            if state != _ANSWERED:
                sent = self._send_answers(session, sent, rows[number].answer_end)
                if state == _NOTHING:
                    session.send(self._refusal_of(number))
                else:
                    command, header = _request_of(frames, rows[number])
                    attempt(session, (command,), self._read_when_drained, session, command, header)
        self._send_answers(session, sent, rows[end - 1].answer_end)

    def _send_answers(self, session: Session, begin: int, end: int) -> int:
        """Send a part of the responses that are written; return its end."""
        if end > begin:
            session.send(self._finds.answers(begin, end))
        return end

    def _refusal_of(self, number: int) -> Command:
        """Return the response to a row's query that has found nothing."""
        queries = self._finds.queries
        row = queries.rows[number]
        code = RequestCode.QUERY_MESSAGE if row.is_by_key else RequestCode.VIEW_MESSAGE_BY_ID
        command = Command(code, row.opaque, serialize_type=_SERIALIZE_TYPES[row.is_binary])
        return _refusal(
            command, None if row.is_by_key else int(queries.offsets[number, 0]), self._last_update
        )

    def _read_when_drained(self, session: Session, command: Command, header: QueryHeader) -> None:
        """Read what a query asks for, once its peer can take it."""
        if session.congested:
            session.when_drained(partial(self._read, session, command, header), command)
        elif not session.closed:
            self._read(session, command, header)

    def _read(self, session: Session, command: Command, header: QueryHeader) -> None:
        """Answer a query by a reading, which may wait for the disk."""
        self._rates.rare_queries += 1
        found = partial(_send_found, session, command, header)
        refusal = self._reads.answer(session, command, self._reading(header), found)
        if refusal is not None:
            session.send(refusal)

    def _reading(self, header: QueryHeader) -> Reading[QueryResult]:
        """Find messages; of one that is found by id only the record counts."""
        if isinstance(header, ViewMessageHeader):
            record = yield from self._store.readings.record(header.physical_offset)
            return QueryResult([] if record is None else [record], 0, 0)
        return (
            yield from self._store.readings.query(
                header.topic,
                header.key,
                UNIQUE_COUNT if header.is_unique_key else header.max_count,
                header.begin_time,
                header.end_time,
                KeyKind.UNIQUE if header.is_unique_key else KeyKind.ANY,
            )
        )


def _request_of(frames: Frames, row: QueryRow) -> tuple[Command, QueryHeader]:
    """Return the request of a row."""
    command = frames.request(row.frame)
    if command.code == RequestCode.QUERY_MESSAGE:
        return command, parse(QueryMessageHeader, command.ext_fields)
    return command, parse(ViewMessageHeader, command.ext_fields)


def _send_found(
    session: Session, command: Command, header: QueryHeader, result: QueryResult
) -> Command | None:
    """Send the records that a query has found; return the refusal if there are none."""
    records, update_time, update_offset = result
    offset = header.physical_offset if isinstance(header, ViewMessageHeader) else None
    if not records:
        return _refusal(command, offset, (update_time, update_offset))
    size = sum(map(len, records))
    if offset is not None:
        start = _FOUND_BY_ID.encode(command, (), size)
    else:
        start = _FOUND_BY_KEY.encode(command, (update_time, update_offset), size)
    session.send(b"".join((start, *records)))
    return None


def _refusal(command: Command, physical_offset: int | None, last_update: LastUpdate) -> Command:
    """Return the response to a query that has found nothing: by id, or by key if there is no offset."""
    if physical_offset is not None:
        remark = f"can not find message by the offset, {physical_offset}"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    answer = fields(QueryMessageResponseHeader(*last_update))
    remark = "can not find message, maybe time range not correct"
    return response(command, ResponseCode.QUERY_NOT_FOUND, remark, answer)
