"""The embedded broker, by what its users do to it; retries and failures are in the guide, which is run."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from cometmq import Credentials, Message, PullStatus, Retry, Start, StoredMessage
from cometmq.blocking import Consumer, Producer, PullConsumer, SimpleConsumer
from cometmq.errors import MessageIllegal, NetworkError, RemoteError, SettingsError
from cometmq.net import inproc
from cometmq.testing import EmbeddedBroker, Fault
from cometmq.testing.embedded_broker import (
    CLIENTS_WAIT_S,
    STORE,
    broker_settings,
    refuse_in_loop,
    until,
    user_settings,
)

PATIENCE_S = 60
STARTS = 3
START_ADDITIONS_MAX = 9_000_000
"""In additions of a Python loop: what they take tells how fast the machine is at the moment."""


@pytest.fixture
def rocketmq() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


def test_two_of_them_have_nothing_to_do_with_each_other(rocketmq: EmbeddedBroker) -> None:
    with EmbeddedBroker() as other:
        other.send(Message("T", b"1"))
        other.clock.advance(60)
        assert rocketmq.messages("T") == []
        assert rocketmq.name_server != other.name_server
    rocketmq.send(Message("T", b"2"))
    assert [message.body for message in rocketmq.messages("T")] == [b"2"]


def test_a_start_takes_no_time_that_a_test_would_notice() -> None:
    def start_s() -> float:
        began = time.process_time()  # what others do on this machine is not ours
        with EmbeddedBroker():
            return time.process_time() - began

    def million_additions_s() -> float:
        began, total = time.process_time(), 0
        for number in range(1_000_000):
            total += number
        return time.process_time() - began

    starts, millions = zip(*((start_s(), million_additions_s()) for _ in range(STARTS)), strict=True)
    assert min(starts) < START_ADDITIONS_MAX / 1_000_000 * min(millions)


def test_it_ends_with_its_threads() -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker() as embedded:
        embedded.send(Message("T", b"1"))
        assert set(threading.enumerate()) - before
    assert set(threading.enumerate()) <= before


def test_what_is_sent_goes_around_the_queues_unless_it_says_to_which(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T", queues=3)
    for number in range(3):
        rocketmq.send(Message("T", b"%d" % number))
    kept = [rocketmq.send(Message("T", b"k", sharding_key="ann")).queue_id for _ in range(3)]
    stored = rocketmq.send(Message("T", b"x", tags="t", keys=("a", "b")), queue_id=2)
    assert [message.queue_id for message in rocketmq.messages("T")][:3] == [0, 1, 2]
    assert len(set(kept)) == 1
    assert (stored.queue_id, stored.tags, stored.keys) == (2, "t", ("a", "b"))
    assert rocketmq.messages("T")[-1] == stored


def test_a_delay_is_for_a_producer_to_ask_for(rocketmq: EmbeddedBroker) -> None:
    with pytest.raises(MessageIllegal, match="only a broker delays"):
        rocketmq.send(Message("T", b"1", delay_level=1))


def test_what_waits_for_a_time_comes_when_the_clock_says_so_unless_it_is_taken_back(
    rocketmq: EmbeddedBroker,
) -> None:
    with Producer(rocketmq.name_server) as producer:
        unwanted = producer.send(Message("T", b"unwanted", delay_ms=60_000))
        producer.send(Message("T", b"wanted", delay_ms=60_000))
        assert producer.recall("T", unwanted.recall_handle) == unwanted.message_id
        rocketmq.clock.advance(62)
        assert [message.body for message in rocketmq.wait_messages("T")] == [b"wanted"]


def test_a_popped_message_comes_again_when_the_clock_says_so(rocketmq: EmbeddedBroker) -> None:
    rocketmq.send(Message("T", b"popped"))
    with SimpleConsumer(rocketmq.name_server, "G", start=Start.FIRST) as consumer:
        consumer.subscribe("T")
        assert len(consumer.receive(invisible_ms=60_000, wait_ms=0)) == 1
        rocketmq.clock.advance(60)
        (again,) = consumer.receive(wait_ms=60_000)
        assert again.reconsume_times == 1


def test_a_failure_must_say_of_what(rocketmq: EmbeddedBroker) -> None:
    with pytest.raises(SettingsError, match="say which requests"):
        rocketmq.fail_next()
    with pytest.raises(SettingsError, match="times -1"):
        rocketmq.fail_next(-1, topic="T")


def test_a_wait_ends_when_others_have_sent(rocketmq: EmbeddedBroker) -> None:
    def send() -> None:
        with Producer(rocketmq.name_server) as producer:
            producer.send(Message("T", b"1"))
            producer.send(Message("T", b"2"))

    sending = threading.Thread(target=send)
    sending.start()
    messages = rocketmq.wait_messages("T", 2, timeout_s=PATIENCE_S)
    sending.join()
    assert [message.body for message in messages] == [b"1", b"2"]


def test_a_wait_in_vain_says_how_far_it_came(rocketmq: EmbeddedBroker) -> None:
    rocketmq.send(Message("T", b"1"), queue_id=1)
    with pytest.raises(TimeoutError, match=r"T has 1 messages after 0.0 s, not 2"):
        rocketmq.wait_messages("T", 2, timeout_s=0.0)
    with pytest.raises(TimeoutError, match=r"group G, 0 members, .* 0.0 s: T queue 1: 0 of 1"):
        rocketmq.wait_consumed("G", "T", timeout_s=0.0)
    rocketmq.create_topic("Orders")
    with pytest.raises(TimeoutError, match=r"there is no topic Orderz after 0.0 s: did you mean Orders\?"):
        rocketmq.wait_consumed("G", "Orderz", timeout_s=0.0)


async def test_a_wait_does_not_hold_up_an_event_loop(rocketmq: EmbeddedBroker) -> None:
    with pytest.raises(RuntimeError, match=r"asyncio.to_thread\(rocketmq.wait_consumed"):
        rocketmq.wait_consumed("G", "T")
    await asyncio.to_thread(rocketmq.create_topic, "T")
    await asyncio.to_thread(rocketmq.wait_consumed, "G", "T")


def test_a_group_has_consumed_once_its_handlers_are_done(rocketmq: EmbeddedBroker) -> None:
    rocketmq.send(Message("T", b"1"))
    go_on, begun = threading.Event(), threading.Event()
    consumer = Consumer(rocketmq.name_server, "G", start=Start.FIRST)

    @consumer.on("T")
    def handle(_: object) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    with consumer:
        assert begun.wait(PATIENCE_S)
        with pytest.raises(TimeoutError, match="group G, 1 members"):
            rocketmq.wait_consumed("G", "T", timeout_s=0.05)
        go_on.set()
        rocketmq.wait_consumed("G", "T", timeout_s=PATIENCE_S)


def test_retries_can_be_waited_for_without_waiting(rocketmq: EmbeddedBroker) -> None:
    rocketmq.send(Message("T", b"1"))
    consumer = Consumer(rocketmq.name_server, "G", start=Start.FIRST)
    tries: list[int] = []

    @consumer.on("T")
    def handle(message: StoredMessage) -> None:
        tries.append(message.reconsume_times)
        raise Retry(delay_level=18)

    with consumer:
        rocketmq.wait_consumed("G", "T", timeout_s=PATIENCE_S)
        assert tries == [0]
        with pytest.raises(TimeoutError, match=r"messages of group G still fail after 0.0 s"):
            rocketmq.wait_consumed("G", "T", retries=True, timeout_s=0.0)
        rocketmq.wait_consumed("G", "T", retries=True, timeout_s=PATIENCE_S)
    assert tries == list(range(17))
    assert [message.reconsume_times for message in rocketmq.dead_letters("G")] == [17]


def test_a_restart_keeps_what_was_stored_and_clients_come_again() -> None:
    with EmbeddedBroker(sockets=False) as rocketmq:  # others may take a port of sockets meanwhile
        came: list[bytes] = []
        consumer = Consumer(rocketmq.name_server, "G", start=Start.FIRST)
        consumer.on("T")(lambda message: came.append(message.body))
        with Producer(rocketmq.name_server, tries=10) as producer, consumer:
            producer.send(Message("T", b"1"))
            rocketmq.wait_consumed("G", "T", timeout_s=PATIENCE_S)
            rocketmq.fail_next(topic="T")
            rocketmq.restart()
            assert rocketmq.failures_pending == 1
            producer.send(Message("T", b"2"))
            rocketmq.wait_consumed("G", "T", timeout_s=PATIENCE_S)
        assert [message.body for message in rocketmq.messages("T")] == [b"1", b"2"]
        assert set(came) == {b"1", b"2"}


def test_a_pull_is_held_for_as_long_as_the_clock_says(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T", queues=1)
    answers: list[PullStatus] = []

    def pull() -> None:
        with PullConsumer(rocketmq.name_server, "G") as consumer:
            (queue,) = consumer.queues("T")
            answers.append(consumer.pull(queue, 0, wait_ms=PATIENCE_S * 1000).status)

    pulling = threading.Thread(target=pull)
    pulling.start()
    while not rocketmq.pulls_held:
        pulling.join(0.01)
    rocketmq.clock.advance(PATIENCE_S - 30)
    assert rocketmq.pulls_held == 1
    rocketmq.clock.advance(30)
    pulling.join(PATIENCE_S)
    assert answers == [PullStatus.NO_NEW_MESSAGE]


def test_members_of_a_group_stay_when_the_clock_leaps(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T")
    consumer = Consumer(rocketmq.name_server, "G", start=Start.FIRST)
    bodies: list[bytes] = []
    consumer.on("T")(lambda message: bodies.append(message.body))

    async def members_left() -> int:
        parts = rocketmq._broker.parts
        parts.clients.close_silent()
        group = parts.consumers.find("G")
        return 0 if group is None else len(group.members)

    with consumer:
        rocketmq.clock.advance(100 * 3600)
        assert rocketmq._run(members_left()) == 1
        rocketmq.send(Message("T", b"1"))
        rocketmq.wait_consumed("G", "T", timeout_s=PATIENCE_S)
    assert bodies == [b"1"]


def test_without_sockets_all_goes_on_within_the_process() -> None:
    with EmbeddedBroker(sockets=False) as rocketmq:
        rocketmq.fail_next(topic="T", fault=Fault.LOSE_ANSWER)
        with Producer(rocketmq.name_server) as producer:
            producer.send(Message("T", b"1" * 1_000_000))
        assert len(rocketmq.messages("T")) == 2
        consumer = Consumer(rocketmq.name_server, "G", start=Start.FIRST)
        bodies: list[bytes] = []
        consumer.on("T")(lambda message: bodies.append(message.body))
        with consumer:
            rocketmq.wait_consumed("G", "T", timeout_s=PATIENCE_S)
        assert bodies == [b"1" * 1_000_000] * 2
        assert rocketmq.messages("T")[0].store_host.startswith(inproc.HOST)
    with pytest.raises(NetworkError, match="Connection refused"), Producer(rocketmq.name_server) as producer:
        producer.send(Message("T", b"1"))


def test_clients_wait_for_a_broker_that_is_late_longer_than_they_ask_for(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T")
    held_up, go_on = threading.Event(), threading.Event()

    async def hold_up() -> None:
        held_up.set()
        assert go_on.wait(PATIENCE_S)  # the broker's loop stands still, as on a machine that is busy

    with Producer(rocketmq.name_server, timeout_ms=50, tries=1) as producer:
        producer.send(Message("T", b"0"))  # its route is known, its connection there
        holding = asyncio.run_coroutine_threadsafe(hold_up(), rocketmq._loop)
        assert held_up.wait(PATIENCE_S)
        threading.Timer(0.5, go_on.set).start()
        producer.send(Message("T", b"1"))
        holding.result(PATIENCE_S)
    assert [message.body for message in rocketmq.messages("T")] == [b"0", b"1"]


def test_a_request_that_a_test_lets_be_ignored_ends_when_its_client_says(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T")
    rocketmq.fail_next(topic="T", fault=Fault.IGNORE)
    began = time.monotonic()
    with (
        Producer(rocketmq.name_server, timeout_ms=50, tries=1) as producer,
        pytest.raises(NetworkError, match="within 50 ms"),
    ):
        producer.send(Message("T", b"1"))
    assert time.monotonic() - began < CLIENTS_WAIT_S


def test_clients_may_connect_by_tls_and_trust_its_certificate() -> None:
    with EmbeddedBroker(tls=True) as embedded:
        for tls in (embedded.tls, None):
            with Producer(embedded.name_server, tls=tls) as producer:
                producer.send(Message("T", b"1"))
        assert len(embedded.messages("T")) == 2
        with (
            Producer(embedded.name_server, tls=True) as stranger,
            pytest.raises(NetworkError, match="--tls-ca"),
        ):
            stranger.send(Message("T", b"2"))
    with pytest.raises(SettingsError, match="sockets=True"):
        EmbeddedBroker(sockets=False, tls=True)


def test_with_credentials_each_request_is_checked_one_that_loses_its_answer_too() -> None:
    admin = Credentials("admin", "secret")
    with (
        EmbeddedBroker(credentials=admin) as embedded,
        Producer(embedded.name_server, credentials=admin) as producer,
        Producer(embedded.name_server, credentials=Credentials("admin", "guess")) as stranger,
    ):
        embedded.create_topic("T")
        embedded.fail_next(topic="T", fault=Fault.LOSE_ANSWER)
        with pytest.raises(RemoteError, match="check signature failed"):
            stranger.send(Message("T", b"forged"))
        assert embedded.failures_pending == 0
        producer.send(Message("T", b"1"))
        embedded.restart()
        producer.send(Message("T", b"2"))
        assert {message.body for message in embedded.messages("T")} == {b"1", b"2"}


async def test_it_is_looked_at_again_until_it_is_so() -> None:
    looks: list[int] = []
    assert await until(lambda: len(looks) == 3, 10, lambda: looks.append(0))
    assert not await until(lambda: False, 0.02)


def test_outside_of_a_loop_waiting_is_fine() -> None:
    refuse_in_loop("wait")


async def test_a_wait_that_would_block_the_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"await asyncio\.to_thread\(rocketmq\.wait, …\)"):
        refuse_in_loop("wait")


def test_a_broker_with_a_user_checks_each_request_and_shows_no_secret() -> None:
    credentials = Credentials('a"b', "the 'secret'")
    settings = broker_settings("127.0.0.1", 0, "127.0.0.1:9876", user_settings(credentials))
    assert settings.auth.authentication_enabled and settings.auth.authorization_enabled
    assert settings.auth.initial_user == credentials
    assert "the 'secret'" not in repr(settings)


def test_a_broker_without_users_asks_for_no_signature() -> None:
    settings = broker_settings("127.0.0.1", 0, "127.0.0.1:9876", {})
    assert not settings.auth.authentication_enabled and settings.auth.initial_user is None


def test_the_largest_message_fits_into_a_file() -> None:
    assert STORE.mapped_file_size_commit_log > 2 * STORE.max_message_size
