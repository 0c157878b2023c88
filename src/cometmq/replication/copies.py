"""A slave's copies of its master's tables: topics, groups, offsets, and how far delays and timers are.

What the log does not hold is asked for at intervals, by RocketMQ's requests. A table that cannot be copied is
tried again in the next round; the others are copied all the same. (RocketMQ: SlaveSynchronize.java.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from cometmq.errors import CometMQError, RemoteError
from cometmq.format.timer.checkpoint import TimerCheckpoint
from cometmq.logs import get_logger
from cometmq.net.client import Connections
from cometmq.wire import bodies
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetAllGroupConfigHeader, GetAllTopicConfigHeader, Header, fields

INTERVAL_MS: Final = 10_000
"""Interval of the rounds. RocketMQ's is 60 s, with a controller 10 s."""
FIRST_MS: Final = 1_000
"""The same while a round has failed, or the master is not known."""
TIMEOUT_MS: Final = 30_000
PAGE: Final = 2_000
"""Most topics or groups that one request asks for."""

TableT = TypeVar("TableT", bodies.TopicTable, bodies.GroupConfigs)

_log = get_logger(__name__)


class SlaveTables(NamedTuple):
    """What makes a slave's tables copies of its master's.

    Attributes:
        offsets: gets committed offsets by ``topic@group`` and queue; the others stay as they are.
        delay_offsets: gets the next queue offset of each delay level.
        modes: gets the modes of groups, by topic and group.
        timer: gets how far the timer is; may raise OSError.
    """

    topics: Callable[[bodies.TopicTable], None]
    groups: Callable[[bodies.GroupConfigs], None]
    offsets: Callable[[Mapping[str, Mapping[int, int]]], None]
    delay_offsets: Callable[[Mapping[int, int]], None]
    modes: Callable[[Mapping[str, dict[str, bodies.MessageModeRequest]]], None]
    timer: Callable[[TimerCheckpoint], Awaitable[None]]


class Copies:
    """Copies the tables of a master, until stopped.

    Args:
        compare_end: called with the ends of this log and of the master's; raises CometMQError if nothing may
            be copied.
        end_offset: returns the end of this log.

    Attributes:
        problem: why the last round has not copied everything; empty if it has.
    """

    def __init__(
        self,
        connections: Connections,
        tables: SlaveTables,
        end_offset: Callable[[], int],
        compare_end: Callable[[int, int], None],
    ) -> None:
        self.problem = "the master is not known yet"
        self._connections = connections
        self._tables = tables
        self._end_offset = end_offset
        self._compare_end = compare_end
        self._address: str | None = None
        self._moved = asyncio.Event()  # set when the next round is due at once
        self._task: asyncio.Task[None] | None = None

    def set_address(self, address: str | None) -> None:
        """Copy from the master at an address; None for nobody."""
        if address != self._address:
            self._address = address
            self._moved.set()

    def go_on(self) -> None:
        """Begin the next round now."""
        self._moved.set()

    def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.create_task(self._run(), name="copies")

    async def stop(self) -> None:
        """End the rounds, and close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._connections.close()

    async def _run(self) -> None:
        while True:
            if self._address is None:
                await self._moved.wait()
                self._moved.clear()
                continue
            await self.round(self._address)
            pause_ms = FIRST_MS if self.problem else INTERVAL_MS
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._moved.wait()
                self._moved.clear()
            except TimeoutError:
                continue

    async def round(self, address: str) -> None:
        """Compare the ends of the logs, and copy each table once; none from a master of another log."""
        steps = (
            self._copy_topics,
            self._copy_groups,
            self._copy_offsets,
            self._copy_delay_offsets,
            self._copy_modes,
            self._copy_timer,
        )
        problem = await self._attempt(self._compare_ends, address)
        if not problem:
            problems = [await self._attempt(step, address) for step in steps]
            problem = next(filter(None, problems), "")
        if problem and problem != self.problem:
            _log.warning("tables are not copied: %s", problem)
        self.problem = problem

    async def _attempt(self, step: Callable[[str], Awaitable[None]], address: str) -> str:
        """Carry out a step; return why it has failed, empty if it has not."""
        try:
            await step(address)
        except (CometMQError, OSError) as error:
            return f"master {address}: {error}"
        return ""

    async def _compare_ends(self, address: str) -> None:
        """Compare the end of this log with that of the master's, which is read later and so not less."""
        own = self._end_offset()
        status = bodies.decode(
            bodies.ReplicationStatus, await self._ask(address, RequestCode.GET_BROKER_HA_STATUS)
        )
        self._compare_end(own, status.max_offset)

    async def _copy_topics(self, address: str) -> None:
        def header(first: int, version: str) -> Header:
            return GetAllTopicConfigHeader(first, version, PAGE)

        code = RequestCode.GET_ALL_TOPIC_CONFIG
        ask = self._pages(address, code, header, bodies.TopicTable, lambda table: table.topics)
        self._tables.topics(await ask)

    async def _copy_groups(self, address: str) -> None:
        def header(first: int, version: str) -> Header:
            return GetAllGroupConfigHeader(first, version, PAGE)

        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        ask = self._pages(address, code, header, bodies.GroupConfigs, lambda table: table.groups)
        self._tables.groups(await ask)

    async def _copy_offsets(self, address: str) -> None:
        body = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        self._tables.offsets(bodies.decode(bodies.ConsumerOffsets, body).offsets)

    async def _copy_delay_offsets(self, address: str) -> None:
        body = await self._ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
        self._tables.delay_offsets(bodies.decode(bodies.DelayOffsets, body).offsets)

    async def _copy_modes(self, address: str) -> None:
        body = await self._ask(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        self._tables.modes(bodies.decode(bodies.MessageModes, body).modes)

    async def _copy_timer(self, address: str) -> None:
        """Copy the timer's checkpoint, unless the master has no timer."""
        try:
            body = await self._ask(address, RequestCode.GET_TIMER_CHECK_POINT)
        except RemoteError:
            return
        await self._tables.timer(TimerCheckpoint.unpack(body))

    async def _pages(
        self,
        address: str,
        code: RequestCode,
        header: Callable[[int, str], Header],
        kind: type[TableT],
        entries: Callable[[TableT], dict[str, Any]],
    ) -> TableT:
        """Return a table that is asked for in pages. Raises RemoteError if it changes meanwhile."""
        answer = await self._answer(address, code, header(0, ""))
        table = bodies.decode(kind, answer.body)
        found = entries(table)
        total = int(answer.ext_fields.get("totalTopicNum") or answer.ext_fields.get("totalGroupNum") or 0)
        while len(found) < total:
            more = bodies.decode(kind, await self._ask(address, code, header(len(found), "")))
            if more.data_version != table.data_version or not entries(more).keys() - found.keys():
                raise RemoteError(ResponseCode.SYSTEM_ERROR, f"{code.name}: it has changed meanwhile")
            found.update(entries(more))
        return table

    async def _ask(self, address: str, code: RequestCode, header: Header | None = None) -> bytes:
        """Return the body of a successful answer. Raises RemoteError or NetworkError."""
        return (await self._answer(address, code, header)).body

    async def _answer(self, address: str, code: RequestCode, header: Header | None) -> Command:
        command = Command(code, ext_fields={} if header is None else fields(header))
        answer = await self._connections.request(address, command, TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.code, f"{code.name}: {answer.remark or ''}")
        return answer
