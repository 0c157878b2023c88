"""The JSON bodies of commands: :func:`encode` and :func:`decode` convert the types listed here.

Messages travel as records (:mod:`cometmq.format.record`) or as plain bodies; batches of them in
:mod:`cometmq.wire.batch`; registrations have a compressed form in :mod:`cometmq.wire.bodies.registration`;
settings are lines of text in :mod:`cometmq.wire.settings_text`.
"""

from cometmq.wire.bodies.body import Body, BodyLimits, decode, encode, from_plain, to_plain
from cometmq.wire.bodies.filters import BloomData, ConsumerFilterData, ConsumerFilterTable, TopicFilters
from cometmq.wire.bodies.group import (
    ClientConnection,
    ConsumerConnections,
    ConsumerIds,
    ConsumerOffsets,
    DelayOffsets,
    GroupConfig,
    GroupConfigs,
    GroupNames,
    ProducerConnections,
    SubscriptionDifference,
)
from cometmq.wire.bodies.heartbeat import (
    ClientConfigCheck,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    ProducerData,
    SubscriptionData,
    tag_subscription,
)
from cometmq.wire.bodies.locks import LockRequest, LockResponse
from cometmq.wire.bodies.pop import (
    AssignmentRequest,
    AssignmentResponse,
    BatchAckEntry,
    BatchAckRequest,
    MessageModeRequest,
    QueueAssignment,
    RequestMode,
)
from cometmq.wire.bodies.registration import Registration
from cometmq.wire.bodies.route import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMembers,
    ClusterInfo,
    QueueData,
    TopicRoute,
)
from cometmq.wire.bodies.running import (
    ConsumedDirectly,
    ConsumeResult,
    ConsumeStatus,
    RunningInfo,
    RunningQueue,
)
from cometmq.wire.bodies.stats import (
    ConsumeOffset,
    ConsumeStats,
    ListedEntries,
    ListedEntry,
    QueueOffsets,
    TextTable,
    TopicOffset,
    TopicStats,
    decode_topic_stats,
    encode_topic_stats,
)
from cometmq.wire.bodies.topic import DataVersion, TopicConfig, TopicConfigs, TopicNames, TopicTable

__all__ = [
    "AssignmentRequest",
    "AssignmentResponse",
    "BatchAckEntry",
    "BatchAckRequest",
    "BloomData",
    "Body",
    "BodyLimits",
    "BrokerData",
    "BrokerMemberGroup",
    "BrokerMembers",
    "ClientConfigCheck",
    "ClientConnection",
    "ClusterInfo",
    "ConsumeFromWhere",
    "ConsumeOffset",
    "ConsumeResult",
    "ConsumeStats",
    "ConsumeStatus",
    "ConsumeType",
    "ConsumedDirectly",
    "ConsumerConnections",
    "ConsumerData",
    "ConsumerFilterData",
    "ConsumerFilterTable",
    "ConsumerIds",
    "ConsumerOffsets",
    "DataVersion",
    "DelayOffsets",
    "GroupConfig",
    "GroupConfigs",
    "GroupNames",
    "Heartbeat",
    "ListedEntries",
    "ListedEntry",
    "LockRequest",
    "LockResponse",
    "MessageModeRequest",
    "MessageModel",
    "ProducerConnections",
    "ProducerData",
    "QueueAssignment",
    "QueueData",
    "QueueOffsets",
    "Registration",
    "RequestMode",
    "RunningInfo",
    "RunningQueue",
    "SubscriptionData",
    "SubscriptionDifference",
    "TextTable",
    "TopicConfig",
    "TopicConfigs",
    "TopicFilters",
    "TopicNames",
    "TopicOffset",
    "TopicRoute",
    "TopicStats",
    "TopicTable",
    "decode",
    "decode_topic_stats",
    "encode",
    "encode_topic_stats",
    "from_plain",
    "tag_subscription",
    "to_plain",
]
