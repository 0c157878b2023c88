import pytest

from cometmq.errors import FormatError
from cometmq.message import MessageQueue
from cometmq.wire import bodies

QUEUE = MessageQueue("TopicA", "broker-a", 0)
RUNNING = (
    b'{"jstack":null,"mqPopTable":{},"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}:'
    b'{"cachedMsgCount":2,"cachedMsgMaxOffset":6,"cachedMsgMinOffset":5,"cachedMsgSizeInMiB":0,"commitOffset":5,'
    b'"droped":false,"lastConsumeTimestamp":1,"lastLockTimestamp":0,"lastPullTimestamp":2,"locked":true,'
    b'"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
    b'"properties":{"PROP_CONSUMEORDERLY":"true"},"statusTable":{},"subscriptionSet":[],"userConsumerInfo":{}}'
)


def test_a_java_consumers_words_are_understood_and_our_own_come_back() -> None:
    info = bodies.decode(bodies.RunningInfo, RUNNING)
    assert info.queues == {QUEUE: bodies.RunningQueue(5, 5, 6, 2, 0, True, False, 2, 1)}
    assert info.properties == {"PROP_CONSUMEORDERLY": "true"}
    assert bodies.decode(bodies.RunningInfo, bodies.encode(info)) == info


def test_what_became_of_a_message_is_said_as_java_says_it() -> None:
    done = bodies.ConsumedDirectly(bodies.ConsumeResult.SUCCESS, spent_ms=3)
    assert (
        bodies.encode(done)
        == b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}'
    )
    assert bodies.decode(bodies.ConsumedDirectly, b'{"spentTimeMills":3}').result is None


@pytest.mark.parametrize("gap", [b"", b"\n "])
def test_subscriptions_are_found_beside_queues_that_are_no_standard_json(gap: bytes) -> None:
    wanted = [bodies.tag_subscription("TopicA", "a || b", 5), bodies.tag_subscription("%RETRY%g", "*", 6)]
    begin, end = RUNNING.split(b'"subscriptionSet":[]')
    own = b",".join(map(bodies.encode, wanted))
    body = begin + b'"subscriptionSet"' + gap + b":" + gap + b"[" + own + b"]" + end
    assert bodies.subscriptions_in(body, len(own) + 4) == wanted
    with pytest.raises(FormatError, match="at most 20 bytes"):
        bodies.subscriptions_in(body, 20)


def test_subscriptions_that_are_missing_or_no_subscriptions_are_an_error() -> None:
    assert bodies.subscriptions_in(RUNNING, 100) == []
    for body, why in (
        (b"{}", "no subscriptionSet"),
        (b'{"subscriptionSet":', "Expecting value"),
        (b'{"subscriptionSet":"\xff"}', "utf-8"),
        (b'{"subscriptionSet":' + b"[" * 100_000, "recursion"),
        (b'{"subscriptionSet":[1]}', "RunningInfo"),
        (b'{"subscriptionSet":[{}]}', "topic"),
    ):
        with pytest.raises(FormatError, match=why):
            bodies.subscriptions_in(body, 1 << 20)
