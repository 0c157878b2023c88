"""Taking queues away: no message is lost, whoever is slow, away or late."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.live import BROKER, SMALL, Live, serving

from cometmq.admin import shrink as shrink_module
from cometmq.admin.shrink import NotDrained, NotReadable, Progress, Step, Unconsumed, shrink
from cometmq.admin.topics import TopicAdmin, TopicOnBroker
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.client import Producer, PullConsumer
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.message import Message, MessageQueue
from cometmq.net.connection import REQUEST_TIMEOUT_MS
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies.topic import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import CreateTopicHeader, Header

QUEUES = 5
OTHER = "broker-b"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look ten times as often."""
    monkeypatch.setattr(shrink_module, "POLL_S", 0.1)


async def fill(live: Live, messages: int = 2, queues: int = QUEUES, broker: str = BROKER) -> None:
    """Send so many messages to each queue of ``T``."""
    async with Producer(live.name_server) as producer:
        for queue_id in range(queues):
            for n in range(messages):
                await producer.send(
                    Message("T", b"%d-%d" % (queue_id, n)), MessageQueue("T", broker, queue_id)
                )


async def consume(
    live: Live, group: str = "cg", *, of: Callable[[int], bool] = lambda _: True
) -> list[bytes]:
    """Consume and commit what is in the queues, or those ``of`` them by their ids."""
    bodies = []
    async with PullConsumer(live.name_server, group) as consumer:
        for queue in await consumer.queues("T"):
            if of(queue.queue_id):
                first = await consumer.committed(queue) or 0
                async for message in consumer.messages(queue, first):
                    bodies.append(message.body)
                    await consumer.commit(queue, message.queue_offset + 1)
    return bodies


async def counts(admin: TopicAdmin) -> dict[str, tuple[int, int]]:
    """Return read and write queues by broker."""
    return {line.broker_name: (line.read_queues, line.write_queues) for line in await _lines(admin)}


async def _lines(admin: TopicAdmin) -> list[TopicOnBroker]:
    async with TopicAdmin(admin.name_servers[0]) as fresh:  # routes are remembered for a while
        return [line for line in await fresh.lines() if line.topic == "T"]


async def test_queues_go_when_every_group_has_consumed_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        await fill(live)
        for group in ("one", "two"):
            assert len(await consume(live, group)) == 2 * QUEUES
        steps: list[Progress] = []
        shrunk = await shrink(admin, "T", 2, settle_s=0.2, on_progress=steps.append)
        assert shrunk.retired == [MessageQueue("T", BROKER, queue_id) for queue_id in (2, 3, 4)]
        assert shrunk.groups == ["one", "two"]
        assert await counts(admin) == {BROKER: (2, 2)}
        assert list(dict.fromkeys(progress.step for progress in steps)) == [
            Step.LOWERING_WRITE,
            Step.SETTLING,
            Step.LOWERING_READ,
        ]
        assert len(await consume(live, "three")) == 4
        again = await shrink(admin, "T", 2)
        assert (again.retired, again.groups) == ([], [])


async def test_who_is_slow_is_named_and_it_can_be_run_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        await fill(live)
        await consume(live, "quick")
        await consume(live, "slow", of=lambda queue_id: queue_id < 4)
        seen: list[Progress] = []
        with pytest.raises(NotDrained) as caught:
            await shrink(admin, "T", 3, settle_s=0, timeout_s=0.3, on_progress=seen.append)
        assert caught.value.left == [Unconsumed(BROKER, 4, "slow", 2)]
        assert "group slow has not consumed 2 messages of queue 4 on broker-a" in str(caught.value)
        assert seen[-1].step is Step.DRAINING and seen[-1].left == caught.value.left
        assert await counts(admin) == {BROKER: (QUEUES, 3)}
        assert await consume(live, "slow") == [b"4-0", b"4-1"]
        assert len((await shrink(admin, "T", 3, settle_s=0)).retired) == 2
        assert await counts(admin) == {BROKER: (3, 3)}


async def test_messages_that_nobody_would_get_are_given_up_only_on_demand(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        await fill(live)
        with pytest.raises(NotDrained, match="no group consumes 2 messages of queue 3 on broker-a"):
            await shrink(admin, "T", 3)
        assert await counts(admin) == {BROKER: (QUEUES, QUEUES)}  # nothing is changed
        assert (await shrink(admin, "T", 3, settle_s=0, no_consumers_ok=True)).groups == []
        assert await counts(admin) == {BROKER: (3, 3)}


async def test_empty_queues_need_no_consumer(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        await fill(live, queues=2)
        assert len((await shrink(admin, "T", 2, settle_s=0)).retired) == 3


async def test_a_group_that_is_dead_can_be_skipped(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        await fill(live)
        await consume(live, "alive")
        await consume(live, "dead", of=lambda queue_id: queue_id == 0)
        with pytest.raises(NotDrained, match=r"group dead .* of queue 2"):
            await shrink(admin, "T", 2, settle_s=0, timeout_s=0)
        shrunk = await shrink(admin, "T", 2, settle_s=0, skipped_groups=["dead"])
        assert shrunk.groups == ["alive"]


async def test_a_producer_that_has_not_heard_of_it_loses_nothing(tmp_path: Path) -> None:
    """It goes on sending to a retired queue while a consumer works; every message is consumed."""

    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        await fill(live)
        await consume(live)  # or nobody would be known to consume the topic yet
        lowered = asyncio.Event()
        sent: list[bytes] = []
        got: list[bytes] = []

        async def produce() -> None:
            async with Producer(live.name_server) as producer:
                for n in range(200):
                    if n == 100:
                        await lowered.wait()
                    await producer.send(Message("T", b"%d" % n), MessageQueue("T", BROKER, 4))
                    sent.append(b"%d" % n)
                    await asyncio.sleep(0.002)

        async def consume_all() -> None:
            while len(got) < 200:
                got.extend(await consume(live))

        def note(progress: Progress) -> None:
            if progress.step is not Step.LOWERING_WRITE:
                lowered.set()

        _, _, shrunk = await asyncio.gather(
            produce(), consume_all(), shrink(admin, "T", 2, settle_s=2, timeout_s=60, on_progress=note)
        )
        assert got == sent and shrunk.groups == ["cg"]


class _Late(TopicAdmin):
    """Sends a message just before the read queues are lowered, once.

    Attributes:
        raising: set once they are to be raised again: a consumer that reads before would drain it too early.
    """

    def __init__(self, live: Live) -> None:
        super().__init__(live.name_server)
        self.live = live
        self.changes: list[tuple[int, int]] = []
        self.raising = asyncio.Event()

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Command:
        if isinstance(header, CreateTopicHeader):
            self.changes.append((header.read_queue_count, header.write_queue_count))
            if len(self.changes) == 2:
                async with Producer(self.live.name_server) as producer:
                    await producer.send(Message("T", b"late"), MessageQueue("T", BROKER, 4))
            if len(self.changes) == 3:
                self.raising.set()
        return await super().ask(address, code, header, body, timeout_ms=timeout_ms)


async def test_a_message_of_the_last_moment_raises_the_read_queues_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, _Late(live) as admin:
        async with TopicAdmin(live.name_server) as plain:
            await plain.create("T", queues=QUEUES)
        await fill(live)
        await consume(live)
        consumed: list[bytes] = []

        async def consume_late() -> None:
            await admin.raising.wait()
            while not consumed:
                with suppress(RemoteError):  # for a moment the queue cannot be read
                    consumed.extend(await consume(live))

        await asyncio.gather(shrink(admin, "T", 2, settle_s=0.1, timeout_s=60), consume_late())
        assert consumed == [b"late"]
        assert admin.changes == [(5, 2), (2, 2), (5, 2), (2, 2)]
        assert await counts(admin) == {BROKER: (2, 2)}


class _Stopped(_Late):
    """Calls ``look`` before the look for the late message; no change is accepted after it if ``is_deaf``."""

    def __init__(self, live: Live, look: Callable[[], Awaitable[None]], *, is_deaf: bool = False) -> None:
        super().__init__(live)
        self._look = look
        self._is_deaf = is_deaf

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Command:
        if len(self.changes) == 2:
            if not isinstance(header, CreateTopicHeader):
                await self._look()
            elif self._is_deaf:
                raise NetworkError("nobody is there")
        return await super().ask(address, code, header, body, timeout_ms=timeout_ms)


async def _lose() -> None:
    """Look in vain."""
    raise NetworkError("no answer")


@asynccontextmanager
async def _consumed(root: Path) -> AsyncIterator[Live]:
    """Serve the topic, all of which is consumed."""
    async with serving(root) as live, TopicAdmin(live.name_server) as plain:
        await plain.create("T", queues=QUEUES)
        await fill(live)
        await consume(live)
        yield live


async def test_a_cancelled_shrink_raises_the_read_queues_again(tmp_path: Path) -> None:
    looking = asyncio.Event()

    async def look() -> None:
        looking.set()
        await asyncio.Event().wait()

    async with _consumed(tmp_path) as live, _Stopped(live, look) as admin:
        shrinking = asyncio.create_task(shrink(admin, "T", 2, settle_s=0))
        await looking.wait()
        assert await counts(admin) == {BROKER: (2, 2)}
        shrinking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shrinking
        assert await counts(admin) == {BROKER: (QUEUES, 2)}
        assert await consume(live) == [b"late"]


async def test_cancellations_wait_until_the_read_queues_are_raised(tmp_path: Path) -> None:
    lowering, may_lower = asyncio.Event(), asyncio.Event()

    class Slow(_Late):
        async def put(self, address: str, config: TopicConfig) -> None:
            if len(self.changes) in (1, 2):
                lowering.set()
                await may_lower.wait()
            await super().put(address, config)

    async with _consumed(tmp_path) as live, Slow(live) as admin:
        shrinking = asyncio.create_task(shrink(admin, "T", 2, settle_s=0))
        await lowering.wait()
        for _ in range(2):
            shrinking.cancel()
            await asyncio.sleep(0)
        may_lower.set()
        with pytest.raises(asyncio.CancelledError):
            await shrinking
        assert admin.changes == [(5, 2), (2, 2), (5, 2)]
        assert await consume(live) == [b"late"]


async def test_a_look_that_fails_raises_the_read_queues_again(tmp_path: Path) -> None:
    async with _consumed(tmp_path) as live, _Stopped(live, _lose) as admin:
        with pytest.raises(NetworkError, match="no answer"):
            await shrink(admin, "T", 2, settle_s=0)
        assert await counts(admin) == {BROKER: (QUEUES, 2)}
        assert await consume(live) == [b"late"]


async def test_read_queues_that_cannot_be_raised_again_are_told_with_the_remedy(tmp_path: Path) -> None:
    async with _consumed(tmp_path) as live, _Stopped(live, _lose, is_deaf=True) as admin:
        with pytest.raises(NotReadable) as caught:
            await shrink(admin, "T", 2, settle_s=0)
        assert "broker-a: nobody is there" in str(caught.value)
        assert f"cometmq topic update T --queues {QUEUES}" in str(caught.value)
        assert await counts(admin) == {BROKER: (2, 2)}
        async with TopicAdmin(live.name_server) as plain:
            await plain.update("T", queues=QUEUES)
        assert await consume(live) == [b"late"]


async def test_every_broker_of_the_topic_is_lowered_to_what_it_may_have(tmp_path: Path) -> None:
    async with serving(tmp_path / "a") as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES)
        other = Broker(
            BrokerSettings.of(
                broker_name=OTHER,
                listen_port=0,
                namesrv_addr=live.name_server,
                store_path_root_dir=str(tmp_path / "b"),
            ),
            StoreSettings(**SMALL),
            load_kernels=False,
        )
        await other.start()
        try:
            await admin.create("T", queues=3)
            await fill(live, queues=3, broker=OTHER)
            await consume(live, of=lambda queue_id: queue_id == 0)
            with pytest.raises(NotDrained) as caught:
                await shrink(admin, "T", 2, settle_s=0, timeout_s=0)
            assert caught.value.left == [Unconsumed(OTHER, 2, "cg", 2)]
            await consume(live)
            shrunk = await shrink(admin, "T", 2, settle_s=0)
            assert {queue.broker_name for queue in shrunk.retired} == {BROKER, OTHER}
            assert await counts(admin) == {BROKER: (2, 2), OTHER: (2, 2)}
        finally:
            await other.stop()


async def test_what_else_a_topic_is_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=QUEUES, perm=2)
        await shrink(admin, "T", 3, settle_s=0)
        assert await _lines(admin) == [TopicOnBroker("T", BROKER, 3, 3, 2)]


async def test_a_topic_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        with pytest.raises(NoRoute, match="'T'"):
            await shrink(admin, "T", 3)
        with pytest.raises(RemoteError) as caught:
            await shrink(admin, "TBW102", 3, settle_s=0)
        assert caught.value.code == ResponseCode.INVALID_PARAMETER
