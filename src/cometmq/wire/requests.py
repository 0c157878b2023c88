"""The table of all requests: for each code the headers of request and response, and the permissions it needs.

Brokers, name servers, clients, tests and the reference page of the docs read this table. A handler is called
with the header parsed as the type in this table. A new request needs a line here, its headers in
``wire.headers``, and a handler in the part that responds to it.

The permissions follow RocketMQ's ``DefaultAuthorizationContextBuilder.java`` and the annotations of its
headers. Where 5.5.0 checks nothing although it could (LITE_PULL_MESSAGE, UPDATE_BROKER_CONFIG, …), the table
has the permission for what the request does.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from cometmq.wire import bodies
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode


class Resource(StrEnum):
    """The kind of resource that a permission is for. Policies may name namespaces, no request needs one."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"


class Action(StrEnum):
    """The action that a permission allows. No request needs ALL or LIST: policies have them."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Access(NamedTuple):
    """A permission that a request needs: any of ``actions`` on topics, groups or a cluster that it names."""

    resource: Resource
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.resource} {'|'.join(self.actions)}"


class Request(NamedTuple):
    """The types and the permissions of a request code.

    Attributes:
        header: the type of the request's header.
        answer: the type of a successful response's header.
        access: the permissions that the sender needs, all of them.
        body: the type of the request's body; None if it has none, or one that is not JSON.
    """

    header: type[h.Header] = h.NoFields
    answer: type[h.Header] = h.NoFields
    access: tuple[Access, ...] = ()
    body: type[bodies.Body] | None = None


def _topic(*actions: Action) -> Access:
    return Access(Resource.TOPIC, actions)


def _group(*actions: Action) -> Access:
    return Access(Resource.GROUP, actions)


_PUB: Final = (_topic(Action.PUB),)
_SUB: Final = (_group(Action.SUB), _topic(Action.SUB))
_PULL: Final = (_topic(Action.SUB), _group(Action.SUB))
"""The same, in the order in which RocketMQ checks pulls: its first refusal is answered."""
_TOPIC_GET: Final = (_topic(Action.GET),)
_GROUP_GET: Final = (_group(Action.GET),)
_BOTH_GET: Final = (_group(Action.GET), _topic(Action.GET))
_BOTH_UPDATE: Final = (_group(Action.UPDATE), _topic(Action.UPDATE))
_SUB_OR_GET: Final = (_topic(Action.SUB, Action.GET), _group(Action.SUB, Action.GET))
_CLUSTER_GET: Final = (Access(Resource.CLUSTER, (Action.GET,)),)
_CLUSTER_UPDATE: Final = (Access(Resource.CLUSTER, (Action.UPDATE,)),)

SENDS: Final[dict[int, type[h.SendHeader]]] = {
    RequestCode.SEND_MESSAGE: h.SendHeader,
    RequestCode.SEND_MESSAGE_V2: h.SendHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: h.SendHeaderV2,
}
"""The requests that store producers' messages, of which brokers handle many at a time, and their headers."""

TO_BROKERS: Final = {
    RequestCode(code): Request(header, h.SendResponseHeader, _PUB) for code, header in SENDS.items()
} | {
    RequestCode.SEND_REPLY_MESSAGE: Request(h.SendHeader, h.SendResponseHeader, _PUB),
    RequestCode.SEND_REPLY_MESSAGE_V2: Request(h.SendHeaderV2, h.SendResponseHeader, _PUB),
    RequestCode.RECALL_MESSAGE: Request(h.RecallHeader, h.RecallResponseHeader, _PUB),
    RequestCode.END_TRANSACTION: Request(h.EndTransactionHeader, h.NoFields, _PUB),
    RequestCode.PULL_MESSAGE: Request(h.PullHeader, h.PullResponseHeader, _PULL),
    RequestCode.LITE_PULL_MESSAGE: Request(h.PullHeader, h.PullResponseHeader, _PULL),
    RequestCode.CONSUMER_SEND_MSG_BACK: Request(h.SendBackHeader, h.NoFields, (_group(Action.SUB),)),
    RequestCode.QUERY_MESSAGE: Request(
        h.QueryMessageHeader, h.QueryMessageResponseHeader, (_topic(Action.SUB, Action.GET),)
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: Request(h.ViewMessageHeader, h.NoFields, _TOPIC_GET),
    RequestCode.QUERY_CONSUMER_OFFSET: Request(
        h.QueryConsumerOffsetHeader, h.OffsetResponseHeader, _SUB_OR_GET
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: Request(
        h.UpdateConsumerOffsetHeader,
        h.NoFields,
        (_topic(Action.SUB, Action.UPDATE), _group(Action.SUB, Action.UPDATE)),
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Request(h.SearchOffsetHeader, h.OffsetResponseHeader, _TOPIC_GET),
    RequestCode.GET_MAX_OFFSET: Request(h.GetMaxOffsetHeader, h.OffsetResponseHeader, _TOPIC_GET),
    RequestCode.GET_MIN_OFFSET: Request(h.GetMinOffsetHeader, h.OffsetResponseHeader, _TOPIC_GET),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Request(
        h.GetEarliestStoreTimeHeader, h.GetEarliestStoreTimeResponseHeader, _TOPIC_GET
    ),
    RequestCode.QUERY_CONSUME_QUEUE: Request(h.QueryConsumeQueueHeader, h.NoFields, _BOTH_GET),
    RequestCode.HEART_BEAT: Request(h.NoFields, h.HeartbeatResponseHeader, _SUB, bodies.Heartbeat),
    RequestCode.UNREGISTER_CLIENT: Request(h.UnregisterClientHeader, h.NoFields, (_group(Action.SUB),)),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Request(
        h.ConsumerGroupHeader, h.NoFields, (_group(Action.SUB, Action.GET),)
    ),
    RequestCode.LOCK_BATCH_MQ: Request(h.NoFields, h.NoFields, _SUB, bodies.LockRequest),
    RequestCode.UNLOCK_BATCH_MQ: Request(h.NoFields, h.NoFields, _SUB, bodies.LockRequest),
    RequestCode.CHECK_CLIENT_CONFIG: Request(
        h.NoFields, h.NoFields, (_group(Action.SUB),), bodies.ClientConfigCheck
    ),
    RequestCode.QUERY_ASSIGNMENT: Request(h.NoFields, h.NoFields, _SUB, bodies.AssignmentRequest),
    RequestCode.POP_MESSAGE: Request(h.PopHeader, h.PopResponseHeader, _SUB),
    RequestCode.ACK_MESSAGE: Request(h.AckHeader, h.NoFields, _SUB),
    RequestCode.BATCH_ACK_MESSAGE: Request(h.NoFields, h.NoFields, _SUB, bodies.BatchAckRequest),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Request(
        h.ChangeInvisibleHeader, h.ChangeInvisibleResponseHeader, _SUB
    ),
    RequestCode.PEEK_MESSAGE: Request(h.PeekHeader, h.PopResponseHeader, _SUB),
    RequestCode.NOTIFICATION: Request(h.NotificationHeader, h.NotificationResponseHeader, _SUB),
    RequestCode.POLLING_INFO: Request(h.PollingInfoHeader, h.PollingInfoResponseHeader, _BOTH_GET),
    # Sent by operators to a broker.
    RequestCode.UPDATE_AND_CREATE_TOPIC: Request(h.CreateTopicHeader, h.NoFields, (_topic(Action.CREATE),)),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Request(
        h.NoFields, h.NoFields, (_topic(Action.CREATE),), bodies.TopicConfigs
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: Request(h.TopicHeader, h.NoFields, (_topic(Action.DELETE),)),
    RequestCode.GET_TOPIC_CONFIG: Request(h.TopicHeader, h.NoFields, _TOPIC_GET),
    RequestCode.GET_ALL_TOPIC_CONFIG: Request(
        h.GetAllTopicConfigHeader, h.GetAllTopicConfigResponseHeader, _CLUSTER_GET
    ),
    RequestCode.GET_TOPIC_STATS_INFO: Request(h.TopicHeader, h.NoFields, _TOPIC_GET),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Request(h.TopicHeader, h.NoFields, _TOPIC_GET),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Request(access=_CLUSTER_GET),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Request(
        h.NoFields, h.NoFields, (_group(Action.UPDATE),), bodies.GroupConfig
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Request(
        h.NoFields, h.NoFields, (_group(Action.UPDATE),), bodies.GroupConfigList
    ),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Request(h.GroupForbiddenHeader, h.NoFields, _BOTH_UPDATE),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Request(h.DeleteGroupHeader, h.NoFields, (_group(Action.DELETE),)),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Request(h.GroupHeader, h.NoFields, _GROUP_GET),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Request(
        h.GetAllGroupConfigHeader, h.GetAllGroupConfigResponseHeader, _CLUSTER_GET
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: Request(h.AllOffsetsHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.GET_ALL_DELAY_OFFSET: Request(access=_CLUSTER_GET),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Request(h.ConsumerGroupHeader, h.NoFields, _GROUP_GET),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Request(h.ProducerGroupHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.GET_CONSUME_STATS: Request(h.GetConsumeStatsHeader, h.NoFields, _BOTH_GET),
    RequestCode.GET_BROKER_CONSUME_STATS: Request(h.BrokerConsumeStatsHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Request(h.GroupTopicHeader, h.NoFields, _BOTH_GET),
    RequestCode.QUERY_CORRECTION_OFFSET: Request(h.CorrectionOffsetHeader, h.NoFields, _BOTH_GET),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Request(h.GroupSubscriptionHeader, h.NoFields, _BOTH_GET),
    RequestCode.GET_ALL_PRODUCER_INFO: Request(access=_CLUSTER_GET),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: Request(h.GroupHeader, h.NoFields, _GROUP_GET),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Request(h.ResetOffsetHeader, h.NoFields, _BOTH_UPDATE),
    RequestCode.CLONE_GROUP_OFFSET: Request(h.CloneOffsetHeader, h.NoFields, _BOTH_UPDATE),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Request(h.RunningInfoHeader, h.NoFields, _GROUP_GET),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Request(h.ConsumeDirectlyHeader, h.NoFields, _SUB),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Request(
        h.NoFields, h.NoFields, _BOTH_UPDATE, bodies.MessageModeRequest
    ),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: Request(access=_CLUSTER_GET),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Request(h.ConsumerStatusHeader, h.NoFields, _BOTH_GET),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Request(h.ResumeCheckHeader, h.NoFields, (_topic(Action.UPDATE),)),
    RequestCode.GET_TIMER_CHECK_POINT: Request(access=_CLUSTER_GET),
    RequestCode.GET_TIMER_METRICS: Request(access=_CLUSTER_GET),
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: Request(h.QueueWritesHeader, h.NoFields, _TOPIC_GET),
    RequestCode.TRIGGER_DELETE_FILES: Request(access=_CLUSTER_UPDATE),
    RequestCode.DELETE_EXPIRED_COMMITLOG: Request(access=_CLUSTER_UPDATE),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Request(access=_CLUSTER_UPDATE),
    RequestCode.CLEAN_UNUSED_TOPIC: Request(access=_CLUSTER_UPDATE),
    RequestCode.GET_BROKER_CONFIG: Request(h.NoFields, h.GetBrokerConfigResponseHeader, _CLUSTER_GET),
    RequestCode.UPDATE_BROKER_CONFIG: Request(access=_CLUSTER_UPDATE),
    RequestCode.GET_BROKER_RUNTIME_INFO: Request(access=_CLUSTER_GET),
    RequestCode.VIEW_BROKER_STATS_DATA: Request(h.StatisticHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.GET_BROKER_HA_STATUS: Request(access=_CLUSTER_GET),
    RequestCode.GET_BROKER_EPOCH_CACHE: Request(access=_CLUSTER_GET),
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: Request(
        h.MasterHeader, h.NoFields, _CLUSTER_UPDATE, bodies.SyncStateSet
    ),
    RequestCode.AUTH_CREATE_USER: Request(h.UserHeader, h.NoFields, _CLUSTER_UPDATE, bodies.UserInfo),
    RequestCode.AUTH_UPDATE_USER: Request(h.UserHeader, h.NoFields, _CLUSTER_UPDATE, bodies.UserInfo),
    RequestCode.AUTH_DELETE_USER: Request(h.UserHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.AUTH_GET_USER: Request(h.UserHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.AUTH_LIST_USER: Request(h.UserFilterHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.AUTH_CREATE_ACL: Request(h.SubjectHeader, h.NoFields, _CLUSTER_UPDATE, bodies.AclInfo),
    RequestCode.AUTH_UPDATE_ACL: Request(h.SubjectHeader, h.NoFields, _CLUSTER_UPDATE, bodies.AclInfo),
    RequestCode.AUTH_DELETE_ACL: Request(h.DeleteAclHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.AUTH_GET_ACL: Request(h.SubjectHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.AUTH_LIST_ACL: Request(h.AclFilterHeader, h.NoFields, _CLUSTER_GET),
}
"""The requests to brokers."""

TO_CLIENTS: Final = {
    RequestCode.CHECK_TRANSACTION_STATE: Request(h.CheckTransactionStateHeader),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Request(h.ConsumerGroupHeader),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Request(h.PushReplyHeader),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Request(h.RunningInfoHeader),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Request(h.ConsumeDirectlyHeader),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Request(h.ConsumerStatusHeader),
}
"""The requests of brokers to clients."""

TO_NAME_SERVERS: Final = {
    RequestCode.PUT_KV_CONFIG: Request(h.PutConfigHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.GET_KV_CONFIG: Request(h.ConfigKeyHeader, h.GetConfigResponseHeader, _CLUSTER_GET),
    RequestCode.DELETE_KV_CONFIG: Request(h.ConfigKeyHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.GET_KVLIST_BY_NAMESPACE: Request(h.NamespaceHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.REGISTER_BROKER: Request(
        h.RegisterBrokerHeader, h.RegisterBrokerResponseHeader, _CLUSTER_UPDATE
    ),
    RequestCode.UNREGISTER_BROKER: Request(h.BrokerHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.QUERY_DATA_VERSION: Request(h.BrokerHeader, h.QueryDataVersionResponseHeader, _CLUSTER_GET),
    RequestCode.BROKER_HEARTBEAT: Request(h.BrokerHeartbeatHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.GET_BROKER_MEMBER_GROUP: Request(h.BrokerMemberGroupHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Request(
        h.GetRouteHeader, h.NoFields, (_topic(Action.PUB, Action.SUB, Action.GET),)
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: Request(access=_CLUSTER_GET),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Request(access=_CLUSTER_GET),
    RequestCode.GET_TOPICS_BY_CLUSTER: Request(h.ClusterHeader, h.NoFields, _CLUSTER_GET),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Request(access=_CLUSTER_GET),
    RequestCode.GET_UNIT_TOPIC_LIST: Request(access=_CLUSTER_GET),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: Request(access=_CLUSTER_GET),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Request(access=_CLUSTER_GET),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Request(h.TopicHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Request(h.DeleteTopicInNamesrvHeader, h.NoFields, _CLUSTER_UPDATE),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Request(
        h.BrokerNameHeader, h.WipeWritePermResponseHeader, _CLUSTER_UPDATE
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Request(
        h.BrokerNameHeader, h.AddWritePermResponseHeader, _CLUSTER_UPDATE
    ),
    RequestCode.UPDATE_NAMESRV_CONFIG: Request(access=_CLUSTER_UPDATE),
    RequestCode.GET_NAMESRV_CONFIG: Request(access=_CLUSTER_GET),
}
"""The requests to name servers."""

REQUESTS: Final = TO_CLIENTS | TO_NAME_SERVERS | TO_BROKERS
"""All requests; for one that a broker passes on to a client, the line of the request to the broker."""
