"""The filters of clients, as brokers get them."""

from cometmq.client.handling.subscription import subscription_data
from cometmq.client.requests.queue_requests import SQL92
from cometmq.errors import FormatError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure
from cometmq.wire.bodies.heartbeat import SubscriptionData


def subscription_of(topic: str, wanted: pb.FilterExpression, now_ms: int) -> SubscriptionData:
    """Return a client's subscription to a topic; without expression to all messages. Raises Failure."""
    expression = wanted.expression or "*"
    if wanted.type == pb.SQL:
        return SubscriptionData(topic, expression, SQL92, now_ms)
    try:
        return subscription_data(topic, expression, None, now_ms)
    except FormatError as error:
        raise Failure(pb.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
