"""Answers that are read from the store: at once from memory, or once a thread has fetched the rest.

No read of the disk holds up the loop. What must wait for one is fetched by the store's few threads; of each
connection a few fetches are under way, and its others wait their turn. So a peer that asks for much old data
holds up nobody else, and what is fetched does not pile up before a peer that does not take it. Answers to
different requests of a connection may change places.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from cometmq.broker.refused import code_of
from cometmq.errors import CometMQError
from cometmq.net.server import Session
from cometmq.store.read.reading import Reading, Run
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response

FETCHES_MAX: Final = 4
"""So many fetches of one connection are under way at once, or done and not answered yet."""

WAITING_MAX: Final = 10_000
"""So many reads wait in all; more are refused."""

AnswerT = TypeVar("AnswerT")


async def read(store: MessageStore, reading: Reading[AnswerT]) -> AnswerT:
    """Give what is read, for no connection. Raises what the reading raises, and OSError."""
    run, fetched = Run(reading), None
    while not run.go_on(fetched):
        fetched = await asyncio.wrap_future(store.fetch(run.step))
    return run.answer


class _WaitingRead(NamedTuple):
    """A read that waits for the disk, or for its turn."""

    session: Session
    command: Command
    run: Run[Any]
    make: Callable[[Any], Command | None]


class _Lane:
    """What one connection waits for."""

    __slots__ = ("fetches", "waiting")

    def __init__(self) -> None:
        self.fetches: set[Future[Any]] = set()
        self.waiting: deque[_WaitingRead] = deque()

    def __len__(self) -> int:
        return len(self.fetches) + len(self.waiting)


class Reads:
    """Carries out the readings whose answers connections wait for.

    Attributes:
        waiting_count: how many wait for the disk, or for their turn.
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
        """Give the answer that ``make`` makes of what is read; None if it gives none, or if that is to come.

        What comes later is sent here, once the peer has room for it; never, if the peer goes before. What
        reading or ``make`` raise is raised, or answered later like a handler's.
        """
        run = Run(reading)
        if run.go_on():
            return make(run.answer)
        if self.waiting_count >= WAITING_MAX:
            return response(command, ResponseCode.SYSTEM_BUSY, "too many reads wait for the disk: try again")
        self.waiting_count += 1
        self._lanes.setdefault(session, _Lane()).waiting.append(_WaitingRead(session, command, run, make))
        self._next(session)
        return None

    def closed(self, session: Session) -> None:
        """Forget what a connection that is gone waited for."""
        if lane := self._lanes.pop(session, None):
            self.waiting_count -= len(lane)
            for future in list(lane.fetches):
                future.cancel()  # what is under way is fetched for nobody

    def _next(self, session: Session) -> None:
        """Begin the connection's next fetches, as many as it may have."""
        lane = self._lanes[session]
        while lane.waiting and len(lane.fetches) < FETCHES_MAX:
            self._fetch(lane, lane.waiting.popleft())
        if not len(lane):
            del self._lanes[session]

    def _fetch(self, lane: _Lane, waiting: _WaitingRead) -> None:
        loop = asyncio.get_running_loop()
        future = self._store.fetch(waiting.run.step)
        lane.fetches.add(future)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._fetched, lane, waiting, done))

    def _fetched(self, lane: _Lane, waiting: _WaitingRead, future: "Future[Any]") -> None:
        """Go on in the loop, unless the connection is gone."""
        if self._lanes.get(waiting.session) is lane:
            waiting.session.when_drained(partial(self._go_on, lane, waiting, future), waiting.command)

    def _go_on(self, lane: _Lane, waiting: _WaitingRead, future: "Future[Any]") -> None:
        session, command, run, make = waiting
        lane.fetches.remove(future)
        self.waiting_count -= 1
        try:
            if not run.go_on(future.result()):
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
