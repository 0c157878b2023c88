"""The blocking clients: the same answers and errors as those for asyncio, from any thread."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue

import pytest

from cometmq import Message, MessageQueue, Start, StoredMessage
from cometmq.blocking import Consumer, LitePullConsumer, Producer, PullConsumer, SimpleConsumer
from cometmq.errors import MessageIllegal, NetworkError, SettingsError

PATIENCE_S = 60


def wait_for(consumer: PullConsumer, queue: MessageQueue, count: int) -> None:
    """Wait until a queue's first messages can be read: a Java broker answers a send before."""
    never = threading.Event()
    while consumer.max_offset(queue) < count:
        never.wait(0.01)


def test_what_is_sent_can_be_pulled(name_server: str, topic: str) -> None:
    with Producer(name_server, topic) as producer:
        result = producer.send(Message(topic, b"one"))
        producer.send_batch([Message(topic, b"two"), Message(topic, b"three")], result.queue)
        assert len(producer.send_many(Message(topic, b"many", sharding_key="k") for _ in range(5))) == 5
        producer.send_oneway(Message(topic, b"on its way"))
        assert result.queue in producer.queues(topic)
        with PullConsumer(name_server, topic) as consumer:
            queue = result.queue
            wait_for(consumer, queue, 3)
            bodies = [message.body for message in consumer.messages(queue)]
            assert bodies[:3] == [b"one", b"two", b"three"]
            assert len(consumer.pull(queue, 1, max_count=1).messages) == 1
            assert queue in consumer.queues(topic)
            assert consumer.committed(queue) in {None, 0}
            consumer.commit(queue, 2)
            assert consumer.committed(queue) == 2
            assert (consumer.min_offset(queue), consumer.offset_by_time(queue, 0)) == (0, 0)
            assert consumer.max_offset(queue) >= 3


def test_what_waits_can_be_taken_back(name_server: str, topic: str) -> None:
    with Producer(name_server) as producer:
        result = producer.send(Message(topic, b"later", delay_ms=60_000))
        assert producer.recall(topic, result.recall_handle) == result.message_id
        with pytest.raises(SettingsError, match="recall handle None"):
            producer.recall(topic, producer.send(Message(topic, b"at once")).recall_handle)


def test_messages_can_be_polled(name_server: str, topic: str) -> None:
    with Producer(name_server) as producer, LitePullConsumer(name_server, topic) as consumer:
        queue = producer.send(Message(topic, b"0")).queue
        producer.send(Message(topic, b"1"), queue)
        consumer.assign([queue])
        consumer.seek(queue, 1)

        def poll() -> list[bytes]:
            return [message.body for message in consumer.poll(PATIENCE_S * 1000, max_count=1)]

        assert (consumer.queues, poll()) == ([queue], [b"1"])
        consumer.commit()
        consumer.seek(queue, 0)
        consumer.pause(queue)
        assert consumer.poll(0) == []
        consumer.resume(queue)
        assert poll() == [b"0"]
        with pytest.raises(SettingsError):
            consumer.subscribe(topic)


def test_messages_can_be_received_and_acknowledged(name_server: str, topic: str) -> None:
    with (
        Producer(name_server) as producer,
        SimpleConsumer(name_server, topic, start=Start.FIRST) as consumer,
    ):
        queue = producer.send(Message(topic, b"0")).queue
        for body in (b"1", b"2"):
            producer.send(Message(topic, body), queue)
        consumer.subscribe(topic)
        messages: list[StoredMessage] = []
        while len(messages) < 3:
            messages += consumer.receive(max_count=3 - len(messages), wait_ms=PATIENCE_S * 1000)
        assert [message.body for message in messages] == [b"0", b"1", b"2"]
        consumer.ack(messages[0])
        consumer.ack_all(messages[1:2])
        consumer.change_invisible(messages[2], 0)
        (again,) = consumer.receive(wait_ms=PATIENCE_S * 1000)
        assert (again.body, again.reconsume_times) == (b"2", 1)
        consumer.ack(again)


def test_what_a_thread_polled_is_done_unless_there_was_an_exception(name_server: str, topic: str) -> None:
    with Producer(name_server) as producer, PullConsumer(name_server, topic) as puller:
        queue = producer.send(Message(topic, b"0")).queue
        for failure, committed in ((KeyError, {0, None}), (None, {1})):
            with suppress(KeyError), LitePullConsumer(name_server, topic, start=Start.FIRST) as consumer:
                consumer.subscribe(topic)
                assert [message.body for message in consumer.poll(PATIENCE_S * 1000)] == [b"0"]
                if failure is not None:
                    raise failure
            assert puller.committed(queue) in committed


def test_threads_share_a_producer(name_server: str, topic: str) -> None:
    with Producer(name_server) as producer, ThreadPoolExecutor(32) as threads:
        results = list(threads.map(lambda n: producer.send(Message(topic, b"%d" % n)), range(500)))
        assert len({result.message_id for result in results}) == 500
        assert len({(result.queue, result.queue_offset) for result in results}) == 500


def test_a_consumer_handles_messages_in_threads_of_its_own(name_server: str, topic: str) -> None:
    handled = threading.Event()
    bodies: list[bytes] = []
    consumer = Consumer(name_server, topic, start=Start.FIRST)

    @consumer.on(topic)
    def handle(message: object) -> None:
        bodies.append(getattr(message, "body", b""))
        handled.set()

    with Producer(name_server) as producer:
        producer.send(Message(topic, b"paid"))
        with consumer:
            assert handled.wait(PATIENCE_S)
            stopper = threading.Thread(target=consumer.stop)
            stopper.start()
            consumer.wait()
            stopper.join()
    assert bodies == [b"paid"]


def test_a_running_consumer_subscribes_and_unsubscribes_also_from_its_handlers(
    name_server: str, topic: str
) -> None:
    invoices: SimpleQueue[StoredMessage] = SimpleQueue()
    consumer = Consumer(name_server, topic, start=Start.FIRST)

    @consumer.on(topic)
    async def handle(_: object) -> None:
        consumer.unsubscribe(topic)
        consumer.subscribe(f"{topic}_2", invoices.put)

    with Producer(name_server) as producer:
        producer.send(Message(topic, b"paid"))
        producer.send(Message(f"{topic}_2", b"sent"))
        with consumer:
            assert invoices.get(timeout=PATIENCE_S).body == b"sent"
            consumer.unsubscribe(f"{topic}_2")
            with pytest.raises(SettingsError, match="no handler"):
                consumer.unsubscribe(topic)


def test_errors_are_raised_where_they_are_asked_for(name_server: str, topic: str) -> None:
    with Producer(name_server) as producer:
        with pytest.raises(MessageIllegal, match="body is empty"):
            producer.send(Message(topic, b""))
        producer.send(Message(topic, b"x"))
    with pytest.raises(NetworkError), Producer("127.0.0.1:1") as producer:
        producer.send(Message(topic, b"x"))


def test_an_interrupt_ends_the_wait(name_server: str, topic: str) -> None:
    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with Producer(name_server) as producer, PullConsumer(name_server, topic) as consumer:
        result = producer.send(Message(topic, b"x"))
        wait_for(consumer, result.queue, 1)
        timer = threading.Timer(0.1, interrupt)

        def wait_in_vain() -> None:
            timer.start()
            consumer.pull(result.queue, 1, wait_ms=60_000)

        with pytest.raises(KeyboardInterrupt):
            wait_in_vain()
        assert len(consumer.pull(result.queue, 0).messages) == 1
        timer.join()


def test_no_thread_is_left_when_the_last_client_is_closed(name_server: str, topic: str) -> None:
    with Producer(name_server) as first, Producer(name_server) as second:
        first.send(Message(topic, b"x"))
        second.send(Message(topic, b"x"))
        assert [thread.name for thread in threading.enumerate()].count("cometmq") == 1
    assert "cometmq" not in [thread.name for thread in threading.enumerate()]


def test_a_handler_in_a_thread_can_stop_its_consumer(name_server: str, topic: str) -> None:
    came = threading.Event()
    consumer = Consumer(name_server, topic, start=Start.FIRST)

    @consumer.on(topic)
    def stop(_: StoredMessage) -> None:
        consumer.stop()
        came.set()

    with Producer(name_server) as producer, consumer:
        queue = producer.send(Message(topic, b"quit")).queue
        assert came.wait(PATIENCE_S)
        consumer.wait()
    with PullConsumer(name_server, topic) as reader:
        assert reader.committed(queue) == 1
