"""Headers of the requests to a name server.

RocketMQ: ``RegisterBrokerRequestHeader.java``, ``GetRouteInfoRequestHeader.java`` and their neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long


class PutConfigHeader(Header):
    """PUT_KV_CONFIG: set a value of the name server's table."""

    namespace: str
    key: str
    value: str


class ConfigKeyHeader(Header):
    """GET_KV_CONFIG and DELETE_KV_CONFIG: a key of the name server's table."""

    namespace: str
    key: str


class GetConfigResponseHeader(Header):
    """A value of the name server's table."""

    value: str | None = None


class NamespaceHeader(Header):
    """GET_KVLIST_BY_NAMESPACE: a namespace of the name server's table."""

    namespace: str


class BrokerHeader(Header):
    """One broker process: UNREGISTER_BROKER, QUERY_DATA_VERSION.

    Attributes:
        broker_addr: ``ip:port`` of the port for clients.
        broker_id: 0 is the master of ``broker_name``.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class RegisterBrokerHeader(BrokerHeader):
    """REGISTER_BROKER: a broker registers itself and its topics.

    Attributes:
        ha_server_addr: ``ip:port`` from which its slaves replicate.
        heartbeat_timeout_ms: silence after which the broker counts as gone.
        compressed: whether the body is compressed: see :mod:`cometmq.wire.bodies.registration`.
        body_crc: checksum of the body; 0 to skip the check.
    """

    ha_server_addr: str
    heartbeat_timeout_ms: Long | None = field(default=None, name="heartbeatTimeoutMillis")
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc: Int = field(default=0, name="bodyCrc32")
    zone_name: str | None = None


class RegisterBrokerResponseHeader(Header):
    """The addresses of a slave's master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class QueryDataVersionResponseHeader(Header):
    """Whether the broker must register again; the name server's DataVersion is the body."""

    changed: bool


class GetRouteHeader(Header):
    """GET_ROUTEINFO_BY_TOPIC.

    Attributes:
        standard_json_only: whether the client cannot decode number keys without quotes.
    """

    topic: str
    standard_json_only: bool | None = field(default=None, name="acceptStandardJsonOnly")


class BrokerNameHeader(Header):
    """A broker name: WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermResponseHeader(Header):
    """The number of topics that lost their write permission."""

    topic_count: Int = field(name="wipeTopicCount")


class AddWritePermResponseHeader(Header):
    """The number of topics that regained their write permission."""

    topic_count: Int = field(name="addTopicCount")


class DeleteTopicInNamesrvHeader(Header):
    """DELETE_TOPIC_IN_NAMESRV: delete a topic in all clusters, or in one."""

    topic: str
    cluster_name: str | None = None


class ClusterHeader(Header):
    """A cluster name: GET_TOPICS_BY_CLUSTER."""

    cluster: str


class BrokerMemberGroupHeader(Header):
    """A cluster and broker name: GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class BrokerHeartbeatHeader(Header):
    """BROKER_HEARTBEAT: the broker is alive and its topics have not changed."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Long | None = None
    epoch: Int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_ms: Long | None = field(default=None, name="heartbeatTimeoutMills")
    election_priority: Int | None = None
