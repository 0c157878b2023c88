"""The thread of the blocking clients: nobody waits for ever, whatever is closed, forked or called by whom."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.kit.programs import FORKS, NOBODY, in_child

from cometmq.blocking import Consumer, LitePullConsumer, Producer, PullConsumer, SimpleConsumer
from cometmq.client.loop_thread import CLOSED, FORKED, SHARED_LOOP
from cometmq.errors import NetworkError, SettingsError
from cometmq.io.clock import SystemClock
from cometmq.message import Message, MessageQueue
from cometmq.testing import EmbeddedBroker

QUEUE = MessageQueue("Orders", "broker-a", 0)
PATIENCE_S = 60


def closed_producer() -> Producer:
    producer = Producer(NOBODY)
    with producer:
        pass
    return producer


@pytest.mark.parametrize("producer", [Producer(NOBODY), closed_producer()])
def test_who_is_not_open_says_so_and_keeps_nobody_from_going_on(producer: Producer) -> None:
    with pytest.raises(NetworkError, match=CLOSED):
        producer.send(Message("Orders", b"x"))
    with pytest.raises(NetworkError, match=CLOSED):
        LitePullConsumer(NOBODY, "readers").seek(QUEUE, 0)
    with Producer(NOBODY) as other, pytest.raises(NetworkError, match="no name server answers"):
        other.send(Message("Orders", b"x"))


def test_a_client_can_be_closed_again_and_opened_again_but_not_twice_at_a_time() -> None:
    producer, consumer = closed_producer(), Consumer(NOBODY, "readers")
    producer.__exit__(None)
    consumer.stop()
    with producer, pytest.raises(SettingsError, match="this Producer is open already"), producer:
        pass
    with producer:
        assert "cometmq" in [thread.name for thread in threading.enumerate()]
    assert "cometmq" not in [thread.name for thread in threading.enumerate()]


def polling(consumer: LitePullConsumer) -> Callable[[], object]:
    return lambda: consumer.poll(3_600_000)


def pulling(consumer: PullConsumer) -> Callable[[], object]:
    return lambda: consumer.pull(consumer.queues("Orders")[0], 0, wait_ms=3_600_000)


@pytest.mark.parametrize(("kind", "waiting"), [(LitePullConsumer, polling), (PullConsumer, pulling)])
def test_who_waits_while_another_thread_closes_gets_an_error(kind: Any, waiting: Any) -> None:
    with EmbeddedBroker(sockets=False) as broker, ThreadPoolExecutor(1) as threads:
        broker.create_topic("Orders", 1)
        with kind(broker.name_server, "readers") as consumer:
            if kind is LitePullConsumer:
                consumer.subscribe("Orders")
            waits = threads.submit(waiting(consumer))
            while not broker.pulls_held:
                pass
        with pytest.raises((NetworkError, SettingsError)):
            waits.result(PATIENCE_S)


def test_what_is_asked_at_the_moment_of_the_end_is_refused() -> None:
    thread = SHARED_LOOP.acquire()
    thread.ended = CLOSED  # as the loop does while it ends
    with pytest.raises(NetworkError, match=CLOSED):
        thread.run(asyncio.sleep(0))
    thread.ended = None
    SHARED_LOOP.release()


def test_what_the_loop_itself_runs_must_not_wait_for_it() -> None:
    refused: list[str] = []

    async def use(producer: Producer) -> None:
        for call in (lambda: producer.queues("Orders"), lambda: producer.__exit__(None)):
            with pytest.raises(RuntimeError, match="from a plain handler") as failure:
                call()
            refused.append(str(failure.value))

    with Producer(NOBODY) as producer:
        thread = SHARED_LOOP.acquire()
        thread.run(use(producer))
        SHARED_LOOP.release()
        with pytest.raises(NetworkError, match="no name server answers"):
            producer.queues("Orders")
    assert len(refused) == 2


@FORKS
def test_a_forked_process_opens_clients_of_its_own() -> None:
    with EmbeddedBroker() as broker, Producer(broker.name_server) as producer:
        producer.send(Message("Orders", b"parent"))

        def child() -> None:
            with pytest.raises(NetworkError, match=FORKED):
                producer.send(Message("Orders", b"inherited"))
            producer.__exit__(None)
            with Producer(broker.name_server) as own:
                own.send(Message("Orders", b"child"))

        assert in_child(child) == 0
        producer.send(Message("Orders", b"parent again"))
        bodies = [message.body for message in broker.messages("Orders")]
        assert bodies == [b"parent", b"child", b"parent again"]


class Stopped(SystemClock):
    """It is always the same moment, so that ids of messages could be the same."""

    def now_ms(self) -> int:
        return 1_000_000


@FORKS
def test_messages_of_processes_that_were_forked_with_a_producer_are_not_taken_for_each_other() -> None:
    with EmbeddedBroker() as broker:
        producer = Producer(broker.name_server, idempotent_by="message_id", clock=Stopped())

        def child() -> None:
            with producer:
                producer.send(Message("Orders", b"x"))

        assert [in_child(child), in_child(child)] == [0, 0]
        assert len({message.message_id for message in broker.messages("Orders")}) == 2


@FORKS
@pytest.mark.parametrize("kind", [Consumer, LitePullConsumer, SimpleConsumer])
def test_consumers_that_were_made_before_a_fork_are_members_of_their_own(kind: Any) -> None:
    """Two of one name count as one: some queues are then consumed twice, some by nobody."""
    unnamed, named = kind(NOBODY, "readers")._client, kind(NOBODY, "readers", instance="one")._client
    read, write = os.pipe()

    def child() -> None:
        for client in (unnamed, named):
            settings = getattr(client._settings, "member", client._settings)
            os.write(write, f"{settings.of_this_process().client_id} ".encode())

    assert in_child(child) == 0
    new, kept = os.read(read, 1_000).decode().split()
    os.close(read)
    os.close(write)
    own = [getattr(one._settings, "member", one._settings).client_id for one in (unnamed, named)]
    assert (new != own[0], kept == own[1]) == (True, True)
