"""Answers that are read from the store: at once from memory, or by a thread if they are on the disk only.

No read of the disk blocks the loop. The store's few threads do them; each connection has a limit of fetches
under way, and its others wait. So a peer that requests much old data delays no other, and fetched data is not
buffered for a peer that does not read. Answers to different requests of a connection may change their order.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Container
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from cometmq.broker.refused import code_of
from cometmq.errors import CometMQError
from cometmq.format.record import Record, decode
from cometmq.net.server import Session
from cometmq.store.read.get_result import GetStatus
from cometmq.store.reading import Reading, Run
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response

FETCHES_MAX: Final = 4
"""Most fetches of one connection that are under way, or done and not answered yet."""

WAITING_MAX: Final = 10_000
"""Most reads that wait in all; more are refused."""

AT_ONCE_MAX: Final = 32
"""Most records that ``records_between`` reads before other work of the loop continues."""

AnswerT = TypeVar("AnswerT")


async def read(store: MessageStore, reading: Reading[AnswerT]) -> AnswerT:
    """Carry out a reading for no connection; return its answer. Raises like the reading, and OSError."""
    run, fetched = Run(reading), None
    while not run.go_on(fetched):
        fetched = await asyncio.wrap_future(store.fetch(run.step))
    return run.answer


async def records_between(
    store: MessageStore,
    topic: str,
    queue_id: int,
    begin: int,
    end: int,
    tags_codes: Container[int] | None = None,
    without: bytes | None = None,
) -> AsyncIterator[Record]:
    """Read the records of a queue from one queue offset to another, as far as they exist. Raises OSError.

    Args:
        tags_codes: hashes of the wanted tags, None for all.
        without: records that hold these bytes anywhere are passed over, before they are decoded.
    """
    offset = begin
    while offset < end:
        reading = store.readings.get(topic, queue_id, offset, AT_ONCE_MAX, tags_codes=tags_codes)
        found = await read(store, reading)
        for data in found.records:
            if without is not None and without in data:
                continue
            if (record := decode(data)).queue_offset < end:
                yield record
        if found.status is not GetStatus.FOUND and found.next_offset <= offset:
            return
        offset = found.next_offset
        await asyncio.sleep(0)  # others have their turn


class _WaitingRead(NamedTuple):
    """A read that waits for the disk, or for its connection's other fetches."""

    session: Session
    command: Command
    run: Run[Any]
    make: Callable[[Any], Command | None]


class _Lane:
    """The reads that one connection waits for."""

    __slots__ = ("fetches", "waiting")

    def __init__(self) -> None:
        self.fetches: dict[Future[Any], _WaitingRead] = {}
        self.waiting: deque[_WaitingRead] = deque()

    def __len__(self) -> int:
        return len(self.fetches) + len(self.waiting)


class Reads:
    """Carries out the readings of requests.

    Attributes:
        waiting_count: the reads that wait for the disk, or for their connection's other fetches.
    """

    def __init__(self, store: MessageStore) -> None:
        self.waiting_count = 0
        self._store = store
        self._lanes: dict[Session, _Lane] = {}

    def answer(
        self,
        session: Session,
        command: Command,
        reading: Reading[AnswerT],
        make: Callable[[AnswerT], Command | None],
    ) -> Command | None:
        """Return the response that ``make`` builds from a reading's answer; None if it has none or waits.

        A response that waits for the disk is sent later, once the peer has room for it, unless the connection
        is closed. Errors of the reading or ``make`` are raised, or sent later like a handler's.
        """
        run = Run(reading)
        if run.go_on():
            return make(run.answer)
        if self.waiting_count >= WAITING_MAX:
            run.close()
            return response(command, ResponseCode.SYSTEM_BUSY, "too many reads wait for the disk: try again")
        self.waiting_count += 1
        self._lanes.setdefault(session, _Lane()).waiting.append(_WaitingRead(session, command, run, make))
        self._next(session)
        return None

    def closed(self, session: Session) -> None:
        """Drop the reads of a closed connection."""
        if lane := self._lanes.pop(session, None):
            self.waiting_count -= len(lane)
            for future in list(lane.fetches):
                future.cancel()  # a fetch under way ends unused
            for waiting in (*lane.fetches.values(), *lane.waiting):
                waiting.run.close()

    def _next(self, session: Session) -> None:
        """Start the connection's next fetches, up to FETCHES_MAX."""
        lane = self._lanes[session]
        while lane.waiting and len(lane.fetches) < FETCHES_MAX:
            self._fetch(lane, lane.waiting.popleft())
        if not len(lane):
            del self._lanes[session]

    def _fetch(self, lane: _Lane, waiting: _WaitingRead) -> None:
        loop = asyncio.get_running_loop()
        future = self._store.fetch(waiting.run.step)
        lane.fetches[future] = waiting
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._fetched, lane, waiting, done))

    def _fetched(self, lane: _Lane, waiting: _WaitingRead, future: "Future[Any]") -> None:
        """Continue in the loop when the peer has room, unless the connection is closed."""
        if self._lanes.get(waiting.session) is lane:
            waiting.session.when_drained(partial(self._go_on, lane, waiting, future), waiting.command)

    def _go_on(self, lane: _Lane, waiting: _WaitingRead, future: "Future[Any]") -> None:
        """Continue a reading with fetched data; send its response, or wait for the next fetch."""
        session, command, run, make = waiting
        del lane.fetches[future]
        self.waiting_count -= 1
        try:
            if not run.go_on(_result_of(future, run)):
                self.waiting_count += 1
                lane.waiting.appendleft(waiting)
                return
            answer = make(run.answer)
        except CometMQError as error:
            answer = response(command, code_of(error), str(error))
        finally:
            self._next(session)
        if answer is not None and not command.is_oneway:
            session.send(answer)


def _result_of(future: "Future[Any]", run: Run[Any]) -> Any:
    """Return what was fetched. Raises OSError; the reading is abandoned then."""
    try:
        return future.result()
    except OSError:
        run.close()
        raise
