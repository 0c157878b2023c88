"""Programs of RocketMQ's own Python client, which a Python that has it runs one after the other.

An order is a line of JSON: "id", "program" (a function of here) and "arguments", the first of which is the
proxy's address, after ``NAME:SECRET@`` for a user. What the program yields is answered line by line, and its
end by "failure" ("", or the stack trace of what it raised), as ``java/Host.java`` does it.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from rocketmq import (  # type: ignore[import-not-found] # it is installed there only
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType  # type: ignore[import-not-found] # likewise
from rocketmq.v5.exception import InternalErrorException  # type: ignore[import-not-found] # likewise

INVISIBLE_S = 10  # the shortest that a proxy allows
SOON_S = 1
AGAIN_S = 0.1
POLLING_S = 15
SETTINGS_UNKNOWN = '"settings" is null'
"""RocketMQ's proxy answers that to a receive before the consumer's settings have arrived."""
DELAY_S = 8  # a recall comes before that on a slow machine, too

Line = dict[str, Any]


def send(address: str, topic: str, *messages: str) -> Iterator[Line]:
    """Send messages; each is the JSON of its attributes."""
    with producer_of(address, topic) as producer:
        for text in messages:
            receipt = producer.send(message_of(topic, **json.loads(text)))
            yield {"message_id": receipt.message_id, "offset": receipt.offset}


def send_all(address: str, topic: str, _group: str, count: str) -> Iterator[Line]:
    """Send so many messages, each until that succeeds; yield how often that was."""
    with producer_of(address, topic) as producer:
        for number in range(int(count)):
            tries = 1
            while not succeeds(lambda: producer.send(message_of(topic, str(number)))):  # noqa: B023 called here
                tries += 1
            yield {"tries": tries}


def receive_all(address: str, topic: str, group: str, count: str) -> Iterator[Line]:
    """Receive until so many different messages are acknowledged; yield each acknowledgement.

    RocketMQ's proxy forgets the settings of clients when it restarts, and a consumer of this client does not
    send them again: it is replaced by another one.
    """
    acknowledged: set[str] = set()
    while len(acknowledged) < int(count):
        with simple_consumer(address, topic, group) as consumer:
            is_known = False
            while len(acknowledged) < int(count):
                try:
                    messages = consumer.receive(32, INVISIBLE_S)
                except Exception as error:  # noqa: BLE001 the client has a class of its own for each code
                    if is_known and SETTINGS_UNKNOWN in str(error):
                        break
                    time.sleep(AGAIN_S)
                    continue
                is_known = True
                for message in messages:
                    if succeeds(lambda: consumer.ack(message)):  # noqa: B023 called here
                        acknowledged.add(message.body.decode())
                        yield {"body": message.body.decode()}


def succeeds(call: Callable[[], Any]) -> bool:
    """Call the client; return whether that succeeds."""
    try:
        call()
    except Exception:  # noqa: BLE001 the client has a class of its own for each code
        time.sleep(AGAIN_S)
        return False
    return True


def recall(address: str, topic: str) -> Iterator[Line]:
    """Send two delayed messages, and recall the first."""
    with producer_of(address, topic) as producer:
        due = int(time.time()) + DELAY_S
        first = producer.send(message_of(topic, "recalled", delivery_timestamp=due))
        producer.send(message_of(topic, "delayed", delivery_timestamp=due))
        recalled = producer.recall_message(topic, first.recall_handle)
    yield {"is_the_first": recalled == first.message_id, "due": due}


def transact(address: str, topic: str, group: str) -> Iterator[Line]:
    """Commit one message, roll back one, commit one when a broker asks; yield what is asked, and received."""
    asked: SimpleQueue[Message] = SimpleQueue()

    class Checker(TransactionChecker):  # type: ignore[misc] # the client is not typed
        def check(self, message: Message) -> Any:
            asked.put(message)
            return TransactionResolution.COMMIT

    with producer_of(address, topic, checker=Checker()) as producer:
        for body in ("committed", "rolled back", "left open"):
            transaction = producer.begin_transaction()
            producer.send(message_of(topic, body), transaction)
            if body == "committed":
                transaction.commit()
            elif body == "rolled back":
                transaction.rollback()
        yield {"asked": line_of(asked.get())}
        yield from receive(address, topic, group, "2")


def receive(
    address: str, topic: str, group: str, count: str, expression: str = "*", kind: str = "TAG"
) -> Iterator[Line]:
    """Receive so many messages, and acknowledge them."""
    wanted = FilterExpression(expression, FilterType.Value(kind))
    with simple_consumer(address, topic, group, wanted) as consumer:
        left = int(count)
        while left > 0:
            for message in receive_some(consumer, 32):
                consumer.ack(message)
                left -= 1
                yield line_of(message)


def fail(address: str, topic: str, group: str, count: str) -> Iterator[Line]:
    """Receive a message so often, each time to fail; then receive once more."""
    with simple_consumer(address, topic, group) as consumer:
        left = int(count)
        while left > 0:
            for message in receive_some(consumer, 1):
                consumer.change_invisible_duration(message, SOON_S)
                left -= 1
                yield line_of(message)
        yield {"then": len(receive_some(consumer, 1))}


def receive_twice(address: str, topic: str, group: str) -> Iterator[Line]:
    """Receive the first message of an ordered group twice, then the next one."""
    with simple_consumer(address, topic, group) as consumer:
        (first,) = receive_some(consumer, 1)
        yield line_of(first)
        consumer.change_invisible_duration(first, SOON_S)
        (again,) = receive_some(consumer, 1)
        yield line_of(again)
        consumer.ack(again)
        (following,) = receive_some(consumer, 1)
        yield line_of(following)
        consumer.ack(following)


def receive_some(consumer: SimpleConsumer, count: int) -> list[Message]:
    """Receive up to so many messages, again while the proxy does not know the consumer's settings."""
    while True:
        try:
            return list(consumer.receive(count, INVISIBLE_S))
        except InternalErrorException as error:
            if SETTINGS_UNKNOWN not in str(error):
                raise
            time.sleep(AGAIN_S)


def consume(address: str, topic: str, group: str, count: str, failing: str) -> Iterator[Line]:
    """Consume by a listener that fails for one body, until it was called so often."""
    handled: SimpleQueue[Message] = SimpleQueue()

    class Listener(MessageListener):  # type: ignore[misc] # the client is not typed
        def consume(self, message: Message) -> Any:
            handled.put(message)
            return ConsumeResult.FAILURE if message.body.decode() == failing else ConsumeResult.SUCCESS

    consumer = PushConsumer(configuration(address), group, Listener(), {topic: FilterExpression()})
    consumer.startup()
    for _ in range(int(count)):
        yield line_of(handled.get())
    consumer.shutdown()


@contextmanager
def producer_of(address: str, topic: str, **options: Any) -> Iterator[Producer]:
    producer = Producer(configuration(address), (topic,), **options)
    producer.startup()
    yield producer
    producer.shutdown()


@contextmanager
def simple_consumer(
    address: str, topic: str, group: str, wanted: FilterExpression | None = None
) -> Iterator[SimpleConsumer]:
    subscriptions = {topic: wanted or FilterExpression()}
    consumer = SimpleConsumer(configuration(address), group, subscriptions, POLLING_S)
    consumer.startup()
    yield consumer
    consumer.shutdown()


def configuration(address: str) -> ClientConfiguration:
    user, _, where = address.rpartition("@")
    name, _, secret = user.partition(":")
    return ClientConfiguration(where, Credentials(name, secret))


def message_of(topic: str, body: str, properties: dict[str, str] | None = None, **attributes: Any) -> Message:
    message = Message()
    message.topic, message.body = topic, body.encode()
    for name, value in attributes.items():
        setattr(message, name, value)
    for name, value in (properties or {}).items():
        message.add_property(name, value)
    return message


def line_of(message: Message) -> Line:
    return {
        "body": message.body.decode(),
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": sorted(message.keys),
        "message_group": message.message_group,
        "properties": message.properties,
        "attempt": message.delivery_attempt,
        "corrupted": message.corrupted,
        "received": time.time(),
    }


def run(program: str, arguments: Iterable[str]) -> Iterator[Line]:
    """Run a program; iterate over the answers."""
    failure = ""
    try:
        for line in globals()[program](*arguments):
            yield {"line": json.dumps(line)}
    except Exception:  # noqa: BLE001 the tests report it
        failure = traceback.format_exc()
    yield {"failure": failure, "clients": []}


if __name__ == "__main__":
    for text in sys.stdin:
        order = json.loads(text)
        for answer in run(order["program"], order["arguments"]):
            print(json.dumps({"id": order["id"]} | answer), flush=True)
