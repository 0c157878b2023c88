import pytest

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.filters import subscription_of
from cometmq.proxy.outcomes import Failure


def test_a_filter_is_what_brokers_get() -> None:
    tags = subscription_of("T", pb.FilterExpression(type=pb.TAG, expression="a || b"), 7)
    assert (tags.topic, tags.expression, sorted(tags.tags), tags.version) == ("T", "a || b", ["a", "b"], 7)
    sql = subscription_of("T", pb.FilterExpression(type=pb.SQL, expression="size > 3"), 7)
    assert (sql.expression_type, sql.expression) == ("SQL92", "size > 3")
    assert subscription_of("T", pb.FilterExpression(), 7).expression == "*"


def test_a_filter_that_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(Failure) as caught:
        subscription_of("T", pb.FilterExpression(type=pb.TAG, expression="||"), 7)
    assert caught.value.code == pb.ILLEGAL_FILTER_EXPRESSION
