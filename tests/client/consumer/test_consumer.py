"""What a push consumer refuses, and brokers that are away; the rest is in ``test_consumer_end_to_end``."""

import asyncio
from collections import Counter
from collections.abc import Container
from pathlib import Path

import pytest
from tests.consuming import Basket
from tests.shop import Shop, shop

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.offsets import END, ResetTarget, reset
from cometmq.client import Consumer, Model, Producer, Start
from cometmq.client.consumer.pop.handling import PopHandling
from cometmq.client.group import member_heartbeats, membership
from cometmq.client.idempotence import Deduplicator, MemoryClaims
from cometmq.errors import FormatError, IllegalName, NetworkError, SettingsError
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.net.server import Session
from cometmq.testing import EmbeddedBroker
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

NOBODY = "127.0.0.1:1"
QUEUES = 4


async def ignore(_: StoredMessage) -> None:
    """Handle a message without anything to do."""


async def has_members(here: Shop) -> bool:
    header = h.ConsumerGroupHeader(here.group_name)
    command = Command(RequestCode.GET_CONSUMER_CONNECTION_LIST, ext_fields=h.fields(header))
    answer = await here.connections.request(here.live.broker, command)
    assert answer.code in {ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE}
    return answer.code == ResponseCode.SUCCESS


def test_only_commits_commit_and_each_is_further_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "COMMIT_DELAY_S", 0.0)  # commit as often as can be
    told: list[Command] = []

    class Recorder:
        def handle(self, session: Session, commands: list[Command]) -> None:
            told.extend(commands)
            sound.handle(session, commands)

        def closed(self, session: Session) -> None:
            sound.closed(session)

    async def main(name_server: str) -> None:
        basket = Basket()
        consumer = Consumer(name_server, "readers", start=Start.FIRST)
        consumer.on("Orders")(basket.put)
        async with consumer, Producer(name_server) as producer:
            for count in range(1, 100):
                await producer.send(Message("Orders", b"x"))
                await basket.has(count)

    with EmbeddedBroker(sockets=False) as broker:
        broker.create_topic("Orders", QUEUES)
        sound, broker._faults.sound = broker._faults.sound, Recorder()
        asyncio.run(main(broker.name_server))
        ends = Counter(message.queue_id for message in broker.messages("Orders"))
    pulls = [h.parse(h.PullHeader, one.ext_fields) for one in told if one.code == RequestCode.PULL_MESSAGE]
    assert pulls and not any(pull.sys_flag & h.PullFlag.COMMIT_OFFSET for pull in pulls)
    commits = [
        h.parse(h.UpdateConsumerOffsetHeader, one.ext_fields)
        for one in told
        if one.code == RequestCode.UPDATE_CONSUMER_OFFSET
    ]
    for queue_id in range(QUEUES):
        offsets = [one.commit_offset for one in commits if (one.topic, one.queue_id) == ("Orders", queue_id)]
        assert offsets == sorted(set(offsets)) and offsets[-1] == ends[queue_id]


async def test_a_consumer_goes_on_when_its_broker_was_away(tmp_path: Path) -> None:
    basket = Basket()
    async with shop(tmp_path / "store") as here:
        namesrv_port, broker_port = (int(address.rpartition(":")[2]) for address in here.live)
        consumer = here.consumer()
        consumer.on("Orders")(basket.put)
        await consumer.start()
        await here.send(b"0")
        await basket.has(1)
    try:
        async with shop(tmp_path / "store", namesrv_port=namesrv_port, listen_port=broker_port) as here:
            await here.send(b"1")
            assert (await basket.has(2))[-1] == b"1"
            await consumer.stop()
            assert await here.committed() == 2
    finally:
        await consumer.stop()


@pytest.mark.parametrize("in_child_task", [False, True])
@pytest.mark.parametrize("kind", [{}, {"pop": True}, {"ordered": True}])
async def test_a_handler_can_stop_its_consumer_and_its_message_is_done(
    kind: dict[str, bool], in_child_task: bool, tmp_path: Path
) -> None:
    basket, has_stopped, may_end = Basket(), asyncio.Event(), asyncio.Event()
    async with shop(tmp_path) as here:
        consumer = here.consumer(pop=kind.get("pop", False))

        async def stop(_: StoredMessage) -> None:
            await (asyncio.create_task(consumer.stop()) if in_child_task else consumer.stop())
            has_stopped.set()
            await may_end.wait()  # it runs on, and is not waited for

        consumer.subscribe("Orders", stop, ordered=kind.get("ordered", False))
        await here.send(b"quit")
        await consumer.start()
        await has_stopped.wait()
        assert not await has_members(here)
        may_end.set()
        await here.send(b"next")
        successor = here.consumer(pop=kind.get("pop", False))
        successor.subscribe("Orders", basket.put, ordered=kind.get("ordered", False))
        async with successor:
            assert await basket.has(1) == [b"next"]


async def test_a_stop_in_a_handler_returns_while_another_one_waits_for_the_handler(tmp_path: Path) -> None:
    handles, is_stopping, has_returned = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with shop(tmp_path) as here:
        consumer = here.consumer()

        async def stop(_: StoredMessage) -> None:
            handles.set()
            await is_stopping.wait()
            await consumer.stop()
            has_returned.set()

        consumer.subscribe("Orders", stop)
        await here.send(b"quit")
        await consumer.start()
        await handles.wait()
        first = asyncio.create_task(consumer.stop())
        asyncio.get_running_loop().call_soon(is_stopping.set)  # when the first one has begun
        await asyncio.sleep(0)
        await consumer.stop()  # it waits for the first one
        assert first.done() and has_returned.is_set()
        assert await here.committed() == 1


async def test_a_consumer_stopped_while_it_starts_is_no_member(tmp_path: Path) -> None:
    async with shop(tmp_path) as here:
        stops: list[asyncio.Task[None]] = []

        def stop(_: object) -> None:
            stops.append(asyncio.create_task(consumer.stop()))

        consumer = here.consumer(on_rebalance=stop)
        consumer.subscribe("Orders", ignore)
        with pytest.raises(NetworkError, match="stopped while it started"):
            await consumer.start()
        await asyncio.gather(*stops)
        assert not await has_members(here)


async def test_what_cannot_be_consumed_is_refused() -> None:
    consumer = Consumer(NOBODY, "readers")
    with pytest.raises(IllegalName):
        Consumer(NOBODY, "no group")
    with pytest.raises(SettingsError):
        Consumer(NOBODY, "readers", max_concurrency=0)
    with pytest.raises(IllegalName):
        consumer.subscribe("no topic", ignore)
    with pytest.raises(FormatError):
        consumer.subscribe("Orders", ignore, "||")
    for model in Model:
        with pytest.raises(ValueError, match="tags 'paid' and sql"):
            Consumer(NOBODY, "readers", model=model).on("Orders", "paid", sql="size > 3")(ignore)
    with pytest.raises(SettingsError):
        consumer.subscribe("Orders", ignore, batch_size=0)
    with pytest.raises(SettingsError, match="deduplicator="):
        consumer.subscribe("Orders", ignore, idempotent_by="keys")
    everywhere = Consumer(
        NOBODY, "readers", model=Model.BROADCASTING, deduplicator=Deduplicator(MemoryClaims())
    )
    with pytest.raises(SettingsError, match="broadcasting"):
        everywhere.subscribe("Orders", ignore, idempotent_by="keys")
    consumer.subscribe("Orders", ignore)
    with pytest.raises(SettingsError, match="already"):
        consumer.subscribe("Orders", ignore)
    with pytest.raises(SettingsError, match="no handler"):
        consumer.unsubscribe("Others")
    consumer.unsubscribe("Orders")
    with pytest.raises(SettingsError, match="without subscriptions"):
        await consumer.run()
    with pytest.raises(SettingsError, match="without subscriptions"):
        await Consumer(NOBODY, "readers").run()


def test_an_argument_that_would_have_no_effect_is_refused() -> None:
    with pytest.raises(SettingsError, match="invisible_ms 1000: only with pop=True"):
        Consumer(NOBODY, "readers", invisible_ms=1_000)
    everywhere = Consumer(NOBODY, "readers", model=Model.BROADCASTING, max_reconsume_times=3)
    with pytest.raises(SettingsError, match="max_reconsume_times 3: leave it out, or handle topic 'Orders'"):
        everywhere.subscribe("Orders", ignore)
    everywhere.subscribe("Orders", ignore, ordered=True)


async def test_a_start_without_name_server_fails_and_can_be_tried_again() -> None:
    consumer = Consumer(NOBODY, "readers", start_timeout_ms=0)
    consumer.subscribe("Orders", ignore)
    for _ in range(2):
        with pytest.raises(NetworkError):
            await consumer.start()
    await consumer.stop()
    assert (consumer.queues, consumer.twins, consumer.group) == ([], 0, "readers")


def alone() -> bool:
    """Return whether nothing else goes on in this loop."""
    return asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("model", Model)
def test_a_start_that_fails_leaves_nothing_behind(model: Model, tmp_path: Path) -> None:
    def refuse(_: list[MessageQueue]) -> None:
        raise ValueError("no")

    async def main(name_server: str) -> None:
        consumer = Consumer(
            name_server, "readers", model=model, on_rebalance=refuse, offsets_directory=tmp_path
        )
        consumer.subscribe("Orders", ignore, ordered=model is Model.BROADCASTING)
        with pytest.raises(ValueError, match="no"):
            await consumer.start()
        assert alone()

    with EmbeddedBroker(sockets=False) as broker:
        broker.create_topic("Orders", QUEUES)
        asyncio.run(main(broker.name_server))


@pytest.mark.parametrize("turns", [1, 100])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_stop_that_is_cancelled_leaves_nothing_behind(turns: int, *, ordered: bool) -> None:
    async def main(broker: EmbeddedBroker) -> None:
        begun = asyncio.Event()

        async def hang(_: StoredMessage) -> None:
            begun.set()
            await asyncio.Event().wait()

        consumer = Consumer(broker.name_server, "readers", start=Start.FIRST)
        consumer.subscribe("Orders", hang, ordered=ordered)
        await consumer.start()
        await begun.wait()
        stopping = asyncio.create_task(consumer.stop())
        for _ in range(turns):
            await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert alone()

    with EmbeddedBroker(sockets=False) as broker:
        broker.send(Message("Orders", b"x"))
        asyncio.run(main(broker))


@pytest.mark.parametrize(
    ("request_code", "answer"),
    [
        (RequestCode.HEART_BEAT, ResponseCode.SYSTEM_BUSY),
        (RequestCode.LOCK_BATCH_MQ, ResponseCode.SUCCESS),  # without the body that belongs to it
    ],
)
def test_an_answer_that_is_of_no_use_is_asked_for_again_soon(
    request_code: int, answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(broker: EmbeddedBroker) -> None:
        basket = Basket()
        consumer = Consumer(broker.name_server, "readers", start=Start.FIRST)
        consumer.subscribe("Orders", basket.put, ordered=True)
        broker.fail_next(2, request=request_code, answer=answer)
        async with asyncio.timeout(60), consumer:
            assert await basket.has(1) == [b"x"]

    monkeypatch.setattr(member_heartbeats, "HEARTBEAT_RETRY_S", 0.0)
    with EmbeddedBroker(sockets=False) as broker:
        broker.create_topic("Orders", 1)
        broker.send(Message("Orders", b"x"))
        asyncio.run(main(broker))


def test_what_stands_still_for_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails_later(own: list[MessageQueue]) -> None:
        if "Others" in {queue.topic for queue in own}:
            raise ValueError("no")

    async def main(name_server: str) -> None:
        consumer = Consumer(name_server, "readers", on_rebalance=fails_later)
        consumer.subscribe("Orders", ignore)
        await consumer.start()
        consumer.subscribe("Others", ignore)
        with pytest.raises(ValueError, match="no"):
            await consumer.wait()
        await consumer.stop()

    with EmbeddedBroker(sockets=False) as broker:
        broker.create_topic("Orders", 1)
        broker.create_topic("Others", 1)
        asyncio.run(main(broker.name_server))
    assert "the rebalance of" in caplog.text and "stands still" in caplog.text


async def test_after_a_reset_only_what_is_being_handled_is_handled_of_what_was_pulled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    basket, gate = Basket(), asyncio.Event()
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        consumer = here.consumer(max_concurrency=1)

        @consumer.on("Orders")
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            await gate.wait()

        await here.send(*(b"%d" % number for number in range(9)))
        async with consumer:
            await basket.has(1)
            await reset(cluster, here.group_name, "Orders", ResetTarget(time=END))
            async with asyncio.timeout(100):
                while "the offset was reset" not in caplog.text:  # noqa: ASYNC110 a log has no event
                    await asyncio.sleep(0.01)
            gate.set()
            await here.send(b"new")
            assert await basket.has(2) == [b"0", b"new"]
        assert await here.committed() == 10


@pytest.mark.parametrize("to", [ResetTarget(time=END), ResetTarget()], ids=["end", "beginning"])
async def test_after_a_reset_no_popped_message_is_handled_that_no_handler_has_begun(
    to: ResetTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    basket, gate, was_reset = Basket(), asyncio.Event(), asyncio.Event()
    drop = PopHandling.drop

    def drop_and_tell(self: PopHandling, queues: Container[MessageQueue]) -> None:
        drop(self, queues)
        was_reset.set()

    monkeypatch.setattr(PopHandling, "drop", drop_and_tell)
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        consumer = here.consumer(max_concurrency=1, pop=True, invisible_ms=5_000)

        @consumer.on("Orders")
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            await gate.wait()

        old = [b"%d" % number for number in range(9)]
        await here.send(*old)
        async with consumer:
            await basket.has(1)
            await reset(cluster, here.group_name, "Orders", to)
            await was_reset.wait()
            gate.set()
            await here.send(b"new")
            expected = [b"0", *(old if to == ResetTarget() else []), b"new"]
            assert await basket.has(len(expected)) == expected
