"""Each public constructor and method refuses arguments of another type, at once, by an error that names them.

What is called here has no server: a check that came only with the answer of one would show.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from cometmq import blocking
from cometmq.admin import dead_letters, groups, messages, offsets
from cometmq.admin.broker_status import broker_status
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.offsets import ResetTarget
from cometmq.admin.shrink import shrink
from cometmq.admin.topics import TopicAdmin
from cometmq.client import (
    Consumer,
    Limits,
    LitePullConsumer,
    Lookup,
    Producer,
    PullConsumer,
    PullOptions,
    Retry,
    SimpleConsumer,
    Start,
    TransactionProducer,
)
from cometmq.client.idempotence import Deduplicator
from cometmq.errors import IllegalType
from cometmq.message import Message, MessageQueue
from cometmq.store import MessageStore
from cometmq.testing import EmbeddedBroker
from cometmq.testing.memory_disk import MemoryDisk

PATIENCE_S: Final = 60
HERE: Final = "127.0.0.1:9876"
QUEUE: Final = MessageQueue("T", "b", 0)
MESSAGE: Final = Message("T", b"x")


def untyped(value: object) -> Any:
    """Return a value that a type checker says nothing about: the calls here are wrong on purpose."""
    return value


def sound(**_: object) -> None:
    """Stand for any function of the application."""


CONSUMERS: Final[dict[str, list[Any]]] = {
    "name_servers": [None, b"127.0.0.1:1", ["127.0.0.1:1"], 9876],
    "group": [None, b"g", 7],
    "start": [None, "first", 0],
    "strategy": ["averagely"],
    "pull": [100, {"max_count": 3}, PullOptions(limits=untyped(100)), PullOptions(max_count=untyped("3"))],
    "on_rebalance": ["f"],
    "instance": [7],
    "start_timeout_ms": [1.5, "3"],
    "heartbeat_interval_ms": [None, 1.5, "3"],
}
PRODUCERS: Final[dict[str, list[Any]]] = {
    "name_servers": CONSUMERS["name_servers"],
    "group": CONSUMERS["group"],
    "timeout_ms": [None, 1.5, "3000"],
    "tries": ["3", None],
    "compress_over": ["4096", 1.0],
    "compression": [None, 1],
    "in_flight_max": ["1", None, 1.5],
    "hooks": [7, "hook"],
    "trace": ["yes", 1],
    "heartbeat_interval_ms": CONSUMERS["heartbeat_interval_ms"],
    "linger_ms": ["5", 0.5],
    "batch_bytes": ["1", None],
    "latency_fault_tolerance": [1, None],
    "idempotent_by": [7, ("keys",)],
}
CONSTRUCTORS: Final[list[tuple[Callable[..., object], dict[str, Any], dict[str, list[Any]]]]] = [
    *(
        (producer, {"name_servers": HERE, "group": "g"}, PRODUCERS)
        for producer in (Producer, blocking.Producer)
    ),
    *(
        (
            producer,
            {"name_servers": HERE, "group": "g", "check": sound},
            PRODUCERS
            | {"check": [None, "f"], "topics": [7, (7,)], "max_concurrency": ["1"], "stop_timeout_ms": [1.5]},
        )
        for producer in (TransactionProducer, blocking.TransactionProducer)
    ),
    *(
        (
            consumer,
            {"name_servers": HERE, "group": "g"},
            CONSUMERS
            | {
                "model": [None, "broadcasting"],
                "max_concurrency": ["20", None, 1.5],
                "max_reconsume_times": ["16", 1.5],
                "suspend_ms": [None, "1"],
                "stop_timeout_ms": [None, 0.5],
                "offsets_directory": [7],
                "trace": ["yes"],
                "pop": [None, "yes"],
                "invisible_ms": [None, "60000"],
            },
        )
        for consumer in (Consumer, blocking.Consumer)
    ),
    *(
        (consumer, {"name_servers": HERE, "group": "g"}, CONSUMERS | {"commit_ms": ["5", 0.5]})
        for consumer in (LitePullConsumer, blocking.LitePullConsumer)
    ),
    *(
        (
            consumer,
            {"name_servers": HERE, "group": "g"},
            {
                name: CONSUMERS[name]
                for name in (
                    "name_servers",
                    "group",
                    "start",
                    "instance",
                    "start_timeout_ms",
                    "heartbeat_interval_ms",
                )
            }
            | {"trace": ["yes", None]},
        )
        for consumer in (SimpleConsumer, blocking.SimpleConsumer)
    ),
    *(
        (
            consumer,
            {"name_servers": HERE, "group": "g"},
            {name: CONSUMERS[name] for name in ("name_servers", "group")} | {"timeout_ms": [None, "3"]},
        )
        for consumer in (PullConsumer, blocking.PullConsumer)
    ),
    *((one, {}, {"name_servers": CONSUMERS["name_servers"]}) for one in (Lookup, ClusterAdmin, TopicAdmin)),
    (Start.at, {}, {"time_ms": [None, "now", 1.5]}),
    (Retry, {}, {"delay_level": ["3", None], "suspend_ms": ["1", 0.5]}),
    (Deduplicator, {"store": ":memory:"}, {"store": [None, 7], "lease_ms": ["1"], "keep_ms": [None, 0.5]}),
    (EmbeddedBroker, {}, {"sockets": [None, "yes"]}),
    (MessageStore.open, {"directory": "/store"}, {"directory": [None, 7, b"/store"], "settings": [{}, 7]}),
]


@pytest.mark.parametrize(
    ("make", "given", "name", "value"),
    [
        pytest.param(
            make, given, name, value, id=f"{make.__module__}.{make.__qualname__} {name} {value!r:.20}"
        )
        for make, given, wrong in CONSTRUCTORS
        for name, values in wrong.items()
        for value in values
    ],
)
def test_a_constructor_names_an_argument_of_another_type(
    make: Callable[..., object], given: dict[str, Any], name: str, value: object
) -> None:
    names = {"name_servers": "name_servers|address", "pull": "pull|limits|max_count"}.get(name, name)
    with pytest.raises(IllegalType, match=rf"^({names}) .*: give "):
        make(**given | {name: value})


async def refused(asked: Callable[[], Any], name: str) -> None:
    """Check that a call is refused without any request."""

    async def ask() -> None:
        async with asyncio.timeout(PATIENCE_S):
            result = asked()
            await (anext(result) if hasattr(result, "__anext__") else result)

    with pytest.raises(IllegalType, match=rf"^{name} .*: give "):
        await ask()


async def test_methods_of_producers_name_what_is_wrong() -> None:
    async with TransactionProducer(HERE, "g", check=untyped(sound)) as opened:
        producer, wrong = untyped(opened), untyped("text")
        for asked in (producer.send, producer.send_oneway, producer.request, producer.send_half):
            for value in untyped((None, "text", b"x", [MESSAGE], {"topic": "T"})):
                await refused(partial(asked, value), "message")
            await refused(partial(asked, MESSAGE, queue=3), "queue")
        for many in (producer.send_many, producer.send_batch):
            for value in untyped((None, "text", [MESSAGE, "x"], 7, MESSAGE)):
                await refused(partial(many, value), "messages")
        await refused(lambda: producer.send_many([MESSAGE], wrong), "queue_of")
        await refused(lambda: producer.send_batch([MESSAGE], wrong), "queue")
        await refused(lambda: producer.request(MESSAGE, wrong), "timeout_ms")
        await refused(lambda: producer.reply(wrong, b"x"), "request")
        await refused(lambda: producer.recall(None, "h"), "topic")
        await refused(lambda: producer.recall("T", 7), "handle")
        await refused(lambda: producer.queues(7), "topic")
        await refused(lambda: producer.send_in_transaction(MESSAGE, None), "execute")


async def test_methods_of_consumers_name_what_is_wrong() -> None:
    wrong, consumer = untyped(object()), Consumer(HERE, "g")
    polling, pulling = untyped(LitePullConsumer(HERE, "g")), untyped(PullConsumer(HERE, "g"))
    for changes, name in (
        ({"topic": wrong}, "topic"),
        ({"handler": "f"}, "handler"),
        ({"tags": 7}, "tags"),
        ({"sql": 7}, "sql"),
        ({"ordered": "yes"}, "ordered"),
        ({"batch_size": "3"}, "batch_size"),
    ):
        given: dict[str, Any] = {"topic": "T", "handler": sound} | changes
        with pytest.raises(IllegalType, match=rf"^{name} "):
            consumer.subscribe(**given)
        with pytest.raises(IllegalType, match=rf"^{name} "):
            blocking.Consumer(HERE, "g").subscribe(**given)
    with pytest.raises(IllegalType, match=r"^topic"):
        consumer.unsubscribe(wrong)
    simple = untyped(SimpleConsumer(HERE, "g"))
    async with polling, pulling, simple, Lookup(HERE) as opened:
        lookup = untyped(opened)
        for asked, name in (
            (lambda: polling.subscribe(wrong), "topic"),
            (lambda: polling.subscribe("T", tags=wrong), "tags"),
            (lambda: polling.assign([wrong]), "queues"),
            (lambda: polling.poll("5"), "timeout_ms"),
            (lambda: polling.poll(max_count=1.5), "max_count"),
            (lambda: simple.subscribe(wrong), "topic"),
            (lambda: simple.subscribe("T", tags=wrong), "tags"),
            (lambda: simple.subscribe("T", sql=7), "sql"),
            (lambda: simple.unsubscribe(None), "topic"),
            (lambda: simple.receive(max_count="1"), "max_count"),
            (lambda: simple.receive(invisible_ms=1.5), "invisible_ms"),
            (lambda: simple.receive(wait_ms=None), "wait_ms"),
            (lambda: simple.ack(wrong), "message"),
            (lambda: simple.ack_all([wrong]), "messages"),
            (lambda: simple.change_invisible(MESSAGE, 1), "message"),
            (lambda: pulling.queues(wrong), "topic"),
            (lambda: pulling.pull(wrong, 0), "queue"),
            (lambda: pulling.pull(MessageQueue("T", "b", untyped("0")), 0), "queue"),
            (lambda: pulling.pull(MessageQueue(untyped(None), "b", 0), 0), "queue"),
            (lambda: pulling.pull(untyped(("T", "b", 0)), 0), "queue"),
            (lambda: pulling.pull(QUEUE, "0"), "queue_offset"),
            (lambda: pulling.pull(QUEUE, 0, tags=wrong), "tags"),
            (lambda: pulling.pull(QUEUE, 0, max_count="3"), "max_count"),
            (lambda: pulling.messages(wrong), "queue"),
            (lambda: pulling.committed(wrong), "queue"),
            (lambda: pulling.commit(QUEUE, None), "queue_offset"),
            (lambda: pulling.min_offset(wrong), "queue"),
            (lambda: pulling.max_offset(wrong), "queue"),
            (lambda: pulling.offset_by_time(QUEUE, "now"), "time_ms"),
            (lambda: lookup.by_key(wrong, "k"), "topic"),
            (lambda: lookup.by_key("T", 42), "key"),
            (lambda: lookup.by_key("T", "k", max_count="1"), "max_count"),
            (lambda: lookup.by_unique_id("T", None), "unique_id"),
            (lambda: lookup.by_offset_id(7), "offset_id"),
        ):
            await refused(asked, name)
        with pytest.raises(IllegalType, match=r"^queue "):
            polling.seek(wrong, 0)
        for change in (polling.pause, polling.resume):
            with pytest.raises(IllegalType, match=r"^queues "):
                change(wrong)


def test_methods_of_a_store_name_what_is_wrong() -> None:
    wrong = untyped(object())
    with MessageStore.open(Path("/store"), files=MemoryDisk()) as opened:
        store = untyped(opened)
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: store.append_message(wrong), "messages"),
            (lambda: store.append_messages([MESSAGE, wrong]), "messages"),
            (lambda: store.append_message(MESSAGE, "0"), "queue_id"),
            (lambda: store.messages(wrong), "topic"),
            (lambda: store.messages("T", begin="0"), "begin"),
            (lambda: store.messages("T", end=1.5), "end"),
            (lambda: store.messages("T", tags=wrong), "tags"),
            (lambda: store.message_by_id(wrong), "message_id"),
            (lambda: store.message_by_id("A", wrong), "topic"),
            (lambda: store.messages_by_key("T", wrong), "key"),
            (lambda: store.messages_by_key("T", "k", max_count="3"), "max_count"),
        ]
        for call, name in calls:
            with pytest.raises(IllegalType, match=rf"^{name} .*: give "):
                call()


def test_methods_of_an_embedded_broker_name_what_is_wrong() -> None:
    wrong, broker = untyped(object()), untyped(EmbeddedBroker(sockets=False))
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: broker.create_topic(wrong), "topic"),
        (lambda: broker.create_topic("T", "8"), "queues"),
        (lambda: broker.send("T"), "message"),
        (lambda: broker.send(MESSAGE, wrong), "queue_id"),
        (lambda: broker.messages(wrong), "topic"),
        (lambda: broker.dead_letters(wrong), "group"),
        (lambda: broker.fail_next(wrong, topic="T"), "times"),
        (lambda: broker.fail_next(topic=wrong), "topic"),
        (lambda: broker.fail_next(request="SEND"), "request"),
        (lambda: broker.fail_next(topic="T", fault="cut"), "fault"),
        (lambda: broker.wait_messages("T", "1"), "number"),
        (lambda: broker.wait_consumed("g", wrong), "topic"),
        (lambda: broker.wait_consumed("g", "T", timeout_s="1"), "timeout_s"),
        (lambda: broker.clock.advance("1"), "seconds"),
    ]
    for call, name in calls:
        with pytest.raises(IllegalType, match=rf"^{name} .*: give "):
            call()


async def test_what_operators_call_names_what_is_wrong() -> None:
    wrong = untyped(object())
    async with TopicAdmin(HERE) as opened:
        admin = untyped(opened)
        for asked, name in (
            (lambda: admin.create(wrong), "topic"),
            (lambda: admin.create("T", queues="8"), "queues"),
            (lambda: admin.create("T", perm="rw"), "perm"),
            (lambda: admin.delete(wrong), "topic"),
            (lambda: admin.update("T", queues="8"), "queues"),
            (lambda: admin.put(HERE, wrong), "config"),
            (lambda: admin.queues(wrong), "topic"),
            (lambda: groups.show(admin, wrong), "group"),
            (lambda: groups.create(admin, wrong), "config"),
            (lambda: groups.delete(admin, wrong), "group"),
            (lambda: groups.running(admin, "g", wrong), "client_id"),
            (lambda: offsets.lag(admin, wrong), "group"),
            (lambda: offsets.reset(admin, "g", wrong, ResetTarget()), "topic"),
            (lambda: offsets.reset(admin, "g", "T", wrong), "target"),
            (lambda: offsets.clone(admin, wrong, "g"), "source"),
            (lambda: messages.by_id(admin, wrong), "message_id"),
            (lambda: messages.by_key(admin, "T", untyped(42)), "key"),
            (lambda: messages.by_time(admin, "T", begin=untyped("now")), "begin"),
            (lambda: messages.consume_directly(admin, "g", wrong), "message"),
            (lambda: messages.send_again(admin, wrong, "T"), "message"),
            (lambda: dead_letters.letters(admin, wrong), "group"),
            (lambda: dead_letters.resend(admin, "g", wrong), "letter"),
            (lambda: shrink(admin, "T", untyped("1")), "queues"),
            (lambda: broker_status(wrong), "address"),
        ):
            await refused(asked, name)


def test_limits_and_pull_options_are_judged_where_they_are_given() -> None:
    for pull, text in (
        (PullOptions(Limits(messages=0)), "messages 0: give an int of at least 1"),
        (PullOptions(Limits(size=untyped("1"))), r"size '1' \(str\)"),
        (PullOptions(hold_ms=-1), "hold_ms -1"),
    ):
        with pytest.raises(Exception, match=text):
            Consumer(HERE, "g", pull=pull)
