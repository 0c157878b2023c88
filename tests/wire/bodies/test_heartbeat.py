import pytest

from cometmq.errors import FormatError
from cometmq.wire import bodies

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
    subscription = bodies.SubscriptionData(
        "TopicA", "TagA", version=1_795_242_489_764, tags={"TagA"}, codes={2_598_919}
    )
    heartbeat = bodies.decode(bodies.Heartbeat, FROM_JAVA)
    assert heartbeat == bodies.Heartbeat(
        "192.0.2.2@123#456", [bodies.ProducerData("pg1")], [bodies.ConsumerData("cg1", [subscription])]
    )
    assert bodies.encode(heartbeat) == FROM_JAVA


def test_reads_numbers_for_names_and_absent_sets_as_a_cpp_client_sends_them() -> None:
    assert bodies.decode(bodies.Heartbeat, FROM_CPP).consumers == [
        bodies.ConsumerData(
            "cg1",
            [bodies.SubscriptionData("TopicA", "*", "TAG", 1_795_242_489_764)],
            bodies.ConsumeType.CONSUME_PASSIVELY,
            bodies.MessageModel.BROADCASTING,
            bodies.ConsumeFromWhere.FIRST_OFFSET,
        )
    ]


def test_a_heartbeat_may_have_neither_producers_nor_consumers() -> None:
    assert bodies.decode(bodies.Heartbeat, b'{"clientID":"id"}') == bodies.Heartbeat("id")


@pytest.mark.parametrize(
    "consumers", ['[{"groupName":"g","consumeType":3}]', '[{"groupName":"g","consumeType":-1}]', "[5]", "5"]
)
def test_a_number_that_names_nothing_is_refused(consumers: str) -> None:
    with pytest.raises(FormatError, match="body is not Heartbeat"):
        bodies.decode(bodies.Heartbeat, f'{{"clientID":"id","consumerDataSet":{consumers}}}'.encode())


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_and_a_star_mean_all_tags(expression: str | None) -> None:
    assert bodies.tag_subscription("T", expression, 5) == bodies.SubscriptionData(
        "T", "*", "TAG", 5, set(), set()
    )


def test_an_expression_is_split_into_tags_and_their_hashes() -> None:
    subscription = bodies.tag_subscription("T", " TagA||TagB || ", 5)
    assert subscription.tags == {"TagA", "TagB"}
    assert subscription.codes == {2_598_919, 2_598_920}
    assert subscription.expression == " TagA||TagB || "
