"""Bodies and fields of requests of all codes."""

import msgspec

from cometmq.message import MessageQueue
from cometmq.wire import bodies
from cometmq.wire.bodies import Body
from cometmq.wire.bodies.group import GroupConfigList
from cometmq.wire.bodies.heartbeat import ConsumerData, SubscriptionData
from cometmq.wire.requests import Request

GROUP, TOPIC, CLUSTER = "g1", "orders", "cluster-a"
ACK = bodies.BatchAckEntry(GROUP, TOPIC, "0", 0, 0, 0, 0, 0, "")
BODIES: dict[type[Body], Body] = {
    bodies.Heartbeat: bodies.Heartbeat("c", consumers=[ConsumerData(GROUP, [SubscriptionData(TOPIC)])]),
    bodies.LockRequest: bodies.LockRequest("c", GROUP, [MessageQueue(TOPIC, "b", 0)]),
    bodies.ClientConfigCheck: bodies.ClientConfigCheck("c", GROUP, SubscriptionData(TOPIC)),
    bodies.AssignmentRequest: bodies.AssignmentRequest(TOPIC, GROUP, "c"),
    bodies.MessageModeRequest: bodies.MessageModeRequest(TOPIC, GROUP),
    bodies.BatchAckRequest: bodies.BatchAckRequest(acks=[ACK]),
    bodies.TopicConfigs: bodies.TopicConfigs([bodies.TopicConfig(TOPIC)]),
    bodies.GroupConfig: bodies.GroupConfig(GROUP),
    GroupConfigList: GroupConfigList([bodies.GroupConfig(GROUP)]),
}
"""A body of each type, with GROUP and TOPIC."""


def fields_with_names(request: Request, topic: str = TOPIC) -> dict[str, str]:
    """Return header fields of which each that can name a topic or a group names one; others are numbers."""
    fields = {}
    for field in msgspec.structs.fields(request.header):
        if "group" in field.name:
            fields[field.encode_name] = GROUP
        elif field.name in ("topic", "topics"):
            fields[field.encode_name] = topic
        elif field.required:
            fields[field.encode_name] = "true" if field.type is bool else "0"
    return fields
