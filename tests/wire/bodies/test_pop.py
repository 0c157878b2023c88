import pytest

from cometmq.errors import FormatError
from cometmq.message import MessageQueue
from cometmq.wire import bodies

ENTRY = bodies.BatchAckEntry("g", "T", "0", 5, 1, 3, 1_795_602_262_251, 15_000, "BQ==")
BATCH = (
    b'{"acks":[{"b":"BQ==","c":"g","it":15000,"pt":1795602262251,"q":1,"r":"0","rq":3,"so":5,"t":"T"}],'
    b'"brokerName":"broker-a"}'
)


def test_a_batch_of_acknowledgements_has_the_short_names() -> None:
    request = bodies.BatchAckRequest("broker-a", [ENTRY])
    assert bodies.encode(request) == BATCH
    assert bodies.decode(bodies.BatchAckRequest, BATCH) == request


def test_entries_with_long_names_are_read_too() -> None:
    body = (
        b'{"brokerName":"broker-a","acks":[{"consumerGroup":"g","topic":"T","retry":"0","startOffset":5,'
        b'"queueId":1,"reviveQueueId":3,"popTime":1795602262251,"invisibleTime":15000,"bitSet":"BQ=="}]}'
    )
    assert bodies.decode(bodies.BatchAckRequest, body) == bodies.BatchAckRequest("broker-a", [ENTRY])


@pytest.mark.parametrize("body", [b'{"acks":[{}]}', b'{"acks":[5]}', b'{"acks":{}}'])
def test_entries_that_lack_members_are_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        bodies.decode(bodies.BatchAckRequest, body)


def test_a_query_for_an_assignment_is_read_as_the_java_client_sends_it() -> None:
    body = (
        b'{"clientId":"c1","consumerGroup":"g","messageModel":"BROADCASTING","strategyName":"AVG",'
        b'"topic":"T"}'
    )
    assert bodies.decode(bodies.AssignmentRequest, body) == bodies.AssignmentRequest(
        "T", "g", "c1", "AVG", bodies.MessageModel.BROADCASTING
    )


def test_an_assignment_names_the_queue_and_the_mode() -> None:
    answer = bodies.AssignmentResponse(
        [bodies.QueueAssignment(MessageQueue("T", "broker-a", -1), bodies.RequestMode.POP)]
    )
    body = (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":-1,"topic":"T"},'
        b'"mode":"POP"}]}'
    )
    assert bodies.encode(answer) == body
    assert bodies.decode(bodies.AssignmentResponse, body) == answer
    assert bodies.decode(bodies.AssignmentResponse, b'{"messageQueueAssignments":null}').assignments is None
    assert bodies.encode(bodies.AssignmentResponse([])) == b'{"messageQueueAssignments":[]}'


def test_the_mode_of_a_group_is_read_as_mqadmin_sends_it() -> None:
    body = b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":8,"topic":"T"}'
    assert bodies.decode(bodies.MessageModeRequest, body) == bodies.MessageModeRequest(
        "T", "g", bodies.RequestMode.POP, 8
    )


def test_the_table_of_modes_is_the_file_of_a_real_broker() -> None:
    body = (
        b'{"messageRequestModeMap":{"TopicC":{"cgpop":{"consumerGroup":"cgpop","mode":"POP",'
        b'"popShareQueueNum":8,"topic":"TopicC"}}}}'
    )
    table = bodies.MessageModes(
        {"TopicC": {"cgpop": bodies.MessageModeRequest("TopicC", "cgpop", bodies.RequestMode.POP, 8)}}
    )
    assert bodies.encode(table) == body
    assert bodies.decode(bodies.MessageModes, body) == table


def test_a_number_that_java_could_not_hold_is_refused() -> None:
    body = b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":2147483648,"topic":"T"}'
    with pytest.raises(FormatError, match="popShareQueueNum"):
        bodies.decode(bodies.MessageModeRequest, body)
