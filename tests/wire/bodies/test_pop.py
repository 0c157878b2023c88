import pytest

from cometmq.errors import FormatError
from cometmq.message import MessageQueue
from cometmq.wire.bodies import (
    AssignmentRequest,
    AssignmentResponse,
    BatchAckEntry,
    BatchAckRequest,
    MessageModel,
    MessageModeRequest,
    MessageModes,
    QueueAssignment,
    RequestMode,
    decode,
    encode,
)

ENTRY = BatchAckEntry("g", "T", "0", 5, 1, 3, 1_795_602_262_251, 15_000, "BQ==")
BATCH = (
    b'{"acks":[{"b":"BQ==","c":"g","it":15000,"pt":1795602262251,"q":1,"r":"0","rq":3,"so":5,"t":"T"}],'
    b'"brokerName":"broker-a"}'
)


def test_a_batch_of_acknowledgements_has_the_short_names() -> None:
    request = BatchAckRequest("broker-a", [ENTRY])
    assert encode(request) == BATCH
    assert decode(BatchAckRequest, BATCH) == request


def test_entries_with_long_names_are_read_too() -> None:
    body = (
        b'{"brokerName":"broker-a","acks":[{"consumerGroup":"g","topic":"T","retry":"0","startOffset":5,'
        b'"queueId":1,"reviveQueueId":3,"popTime":1795602262251,"invisibleTime":15000,"bitSet":"BQ=="}]}'
    )
    assert decode(BatchAckRequest, body) == BatchAckRequest("broker-a", [ENTRY])


@pytest.mark.parametrize("body", [b'{"acks":[{}]}', b'{"acks":[5]}', b'{"acks":{}}'])
def test_entries_that_lack_members_are_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        decode(BatchAckRequest, body)


def test_a_query_for_an_assignment_is_read_as_the_java_client_sends_it() -> None:
    body = (
        b'{"clientId":"c1","consumerGroup":"g","messageModel":"BROADCASTING","strategyName":"AVG",'
        b'"topic":"T"}'
    )
    assert decode(AssignmentRequest, body) == AssignmentRequest(
        "T", "g", "c1", "AVG", MessageModel.BROADCASTING
    )


def test_an_assignment_names_the_queue_and_the_mode() -> None:
    answer = AssignmentResponse([QueueAssignment(MessageQueue("T", "broker-a", -1), RequestMode.POP)])
    body = (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":-1,"topic":"T"},'
        b'"mode":"POP"}]}'
    )
    assert encode(answer) == body
    assert decode(AssignmentResponse, body) == answer
    assert decode(AssignmentResponse, b'{"messageQueueAssignments":null}').assignments is None
    assert encode(AssignmentResponse([])) == b'{"messageQueueAssignments":[]}'


def test_the_mode_of_a_group_is_read_as_mqadmin_sends_it() -> None:
    body = b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":8,"topic":"T"}'
    assert decode(MessageModeRequest, body) == MessageModeRequest("T", "g", RequestMode.POP, 8)


def test_the_table_of_modes_is_the_file_of_a_real_broker() -> None:
    body = (
        b'{"messageRequestModeMap":{"TopicC":{"cgpop":{"consumerGroup":"cgpop","mode":"POP",'
        b'"popShareQueueNum":8,"topic":"TopicC"}}}}'
    )
    table = MessageModes({"TopicC": {"cgpop": MessageModeRequest("TopicC", "cgpop", RequestMode.POP, 8)}})
    assert encode(table) == body
    assert decode(MessageModes, body) == table


def test_a_number_that_java_could_not_hold_is_refused() -> None:
    body = b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":2147483648,"topic":"T"}'
    with pytest.raises(FormatError, match="popShareQueueNum"):
        decode(MessageModeRequest, body)
