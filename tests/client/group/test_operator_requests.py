"""Requests of operators without a broker: the running info, and a message to handle directly."""

from typing import cast

from tests.client.members import TOPIC, settled
from tests.client.transactions import half_record
from tests.pulled import QUEUE, pulled, stored

from cometmq.client.group.operator_requests import ConsumeDirectly, MemberFacts, OperatorRequests
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.errors import NetworkError
from cometmq.message import StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ConsumeType, tag_subscription
from cometmq.wire.bodies.running import ConsumedDirectly, ConsumeResult, RunningInfo, RunningQueue
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

SUBSCRIPTION = tag_subscription(TOPIC, "paid", 5)
FACTS = MemberFacts(("a:1", "b:2"), ConsumeType.CONSUME_PASSIVELY, frozenset([TOPIC]), 1_000, (SUBSCRIPTION,))
OTHER = QUEUE._replace(queue_id=1)


class Wire:
    """The connection of a broker that passes requests on."""

    def __init__(self) -> None:
        self.responses: list[Command] = []

    def send(self, command: Command) -> None:
        self.responses.append(command)


async def response_to(requests: OperatorRequests, code: int, body: bytes = b"") -> Command:
    wire = Wire()
    requests.handle(cast(Connection, wire), Command(code, opaque=7, body=body))
    await settled(lambda: bool(wire.responses))
    (answer,) = wire.responses
    assert answer.opaque == 7
    return answer


def requests_of(consume: ConsumeDirectly | None = None) -> OperatorRequests:
    queues = {QUEUE: ConsumedQueue(pulled(stored(3), stored(4), stored(5))), OTHER: ConsumedQueue(pulled())}
    queues[OTHER].pulling.waiting = None  # its offset is not known yet
    return OperatorRequests(FACTS, queues, lambda queue: queue is QUEUE, consume)


async def test_the_running_info_describes_the_member_and_its_queues() -> None:
    answer = await response_to(requests_of(), RequestCode.GET_CONSUMER_RUNNING_INFO)
    info = decode(RunningInfo, answer.body)
    assert info.properties.pop("PROP_CLIENT_VERSION")
    assert info.properties == {
        "PROP_NAMESERVER_ADDR": "a:1;b:2",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": "true",
        "PROP_CONSUMER_START_TIMESTAMP": "1000",
    }
    assert info.subscriptions == [SUBSCRIPTION]
    assert info.topics.keys() == {TOPIC}
    waiting = RunningQueue(
        commit_offset=3, waiting_min_offset=3, waiting_max_offset=5, waiting_count=3, locked=True
    )
    assert info.queues == {QUEUE: waiting, OTHER: RunningQueue()}


async def test_an_empty_queue_has_no_waiting_offsets() -> None:
    requests = OperatorRequests(FACTS, {QUEUE: ConsumedQueue(pulled())}, lambda _: False, None)
    assert requests.running_info().queues == {QUEUE: RunningQueue()}


async def test_a_message_is_handled_directly_and_the_result_is_the_response() -> None:
    got: list[StoredMessage] = []

    async def consume(message: StoredMessage) -> ConsumedDirectly:
        got.append(message)
        return ConsumedDirectly(ConsumeResult.LATER, remark="again later")

    requests = requests_of(consume)
    answer = await response_to(requests, RequestCode.CONSUME_MESSAGE_DIRECTLY, half_record())
    assert decode(ConsumedDirectly, answer.body).result is ConsumeResult.LATER
    assert [(message.topic, message.body, message.message_id) for message in got] == [
        ("Orders", b"paid", "ID")
    ]
    await requests.stop()


async def test_a_bad_record_or_a_failing_client_is_an_error_for_the_operator() -> None:
    async def consume(_: StoredMessage) -> ConsumedDirectly:
        raise NetworkError("this client is closed")

    requests = requests_of(consume)
    for body, remark in ((half_record(), "this client is closed"), (b"no record", "")):
        answer = await response_to(requests, RequestCode.CONSUME_MESSAGE_DIRECTLY, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark and remark in answer.remark


async def test_what_a_member_does_not_support_is_refused() -> None:
    for code in (RequestCode.CONSUME_MESSAGE_DIRECTLY, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT):
        answer = await response_to(requests_of(), code, half_record())
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_a_stop_cancels_what_is_being_handled() -> None:
    started: list[StoredMessage] = []

    async def consume(message: StoredMessage) -> ConsumedDirectly:
        started.append(message)
        await settled(lambda: False)
        raise AssertionError("it is cancelled before")

    requests, wire = requests_of(consume), Wire()
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, opaque=7, body=half_record())
    requests.handle(cast(Connection, wire), command)
    await settled(lambda: bool(started))
    await requests.stop()
    assert wire.responses == []
