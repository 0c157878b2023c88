import pytest

from cometmq.errors import FormatError
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    ProducerData,
    SubscriptionData,
    tag_subscription,
)

FROM_JAVA = (
    b'{"clientID":"192.0.2.2@123#456","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"cg1","messageModel":"CLUSTERING","subscriptionDataSet":'
    b'[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",'
    b'"subVersion":1795242489764,"tagsSet":["TagA"],"topic":"TopicA"}],"unitMode":false}],'
    b'"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"pg1"}],"withoutSub":false}'
)
FROM_CPP = (
    b'{"clientID":"192.0.2.2@123#cpp","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"cg1",'
    b'"messageModel":0,"subscriptionDataSet":[{"subString":"*","subVersion":"1795242489764","topic":"TopicA"}]}],'
    b'"producerDataSet":[{"groupName":"pg1"}]}\n'
)


def test_reads_and_writes_a_heartbeat_as_a_java_client_does() -> None:
    subscription = SubscriptionData(
        "TopicA", "TagA", version=1_795_242_489_764, tags={"TagA"}, codes={2_598_919}
    )
    heartbeat = decode(Heartbeat, FROM_JAVA)
    assert heartbeat == Heartbeat(
        "192.0.2.2@123#456", [ProducerData("pg1")], [ConsumerData("cg1", [subscription])]
    )
    assert encode(heartbeat) == FROM_JAVA


def test_reads_numbers_for_names_and_absent_sets_as_a_cpp_client_sends_them() -> None:
    assert decode(Heartbeat, FROM_CPP).consumers == [
        ConsumerData(
            "cg1",
            [SubscriptionData("TopicA", "*", "TAG", 1_795_242_489_764)],
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.BROADCASTING,
            ConsumeFromWhere.FIRST_OFFSET,
        )
    ]


def test_a_heartbeat_may_have_neither_producers_nor_consumers() -> None:
    assert decode(Heartbeat, b'{"clientID":"id"}') == Heartbeat("id")


@pytest.mark.parametrize(
    "consumers", ['[{"groupName":"g","consumeType":3}]', '[{"groupName":"g","consumeType":-1}]', "[5]", "5"]
)
def test_a_number_that_names_nothing_is_refused(consumers: str) -> None:
    with pytest.raises(FormatError, match="body is not Heartbeat"):
        decode(Heartbeat, f'{{"clientID":"id","consumerDataSet":{consumers}}}'.encode())


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_and_a_star_mean_all_tags(expression: str | None) -> None:
    assert tag_subscription("T", expression, 5) == SubscriptionData("T", "*", "TAG", 5, set(), set())


def test_an_expression_is_split_into_tags_and_their_hashes() -> None:
    subscription = tag_subscription("T", " TagA||TagB || ", 5)
    assert subscription.tags == {"TagA", "TagB"}
    assert subscription.codes == {2_598_919, 2_598_920}
    assert subscription.expression == " TagA||TagB || "
