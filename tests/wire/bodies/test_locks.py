from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.locks import LockRequest, LockResponse

QUEUE = MessageQueue("TopicA", "broker-a", 0)


def test_reads_and_writes_a_request_as_a_java_client_does() -> None:
    text = (
        b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}],'
        b'"onlyThisBroker":false}'
    )
    assert decode(LockRequest, text) == LockRequest("c", "g", [QUEUE])
    assert encode(LockRequest("c", "g", [QUEUE])) == text


def test_a_cpp_client_says_nothing_of_this_broker_only() -> None:
    queue = b'{"topic":"TopicA","brokerName":"broker-a","queueId":"0"}'
    text = b'{"clientId":"c","consumerGroup":"g","mqSet":[' + queue + b"]}"
    assert decode(LockRequest, text) == LockRequest("c", "g", [QUEUE])


def test_reads_and_writes_a_response_as_a_java_broker_does() -> None:
    text = b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}]}'
    assert decode(LockResponse, text) == LockResponse([QUEUE])
    assert encode(LockResponse([QUEUE])) == text
    assert encode(LockResponse([])) == b'{"lockOKMQSet":[]}'
