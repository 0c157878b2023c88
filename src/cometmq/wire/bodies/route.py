"""Bodies from which clients learn the addresses of brokers.

RocketMQ: ``TopicRouteData.java``, ``ClusterInfo.java``, ``BrokerMemberGroup.java``.

Java clients before 4.9.4 need the broker ids of a route as keys without quotes, later ones standard JSON:
``encode(route, standard=...)``. GET_BROKER_CLUSTER_INFO and GET_BROKER_MEMBER_GROUP always omit the quotes.
"""

from typing import Any

from msgspec import field

from cometmq.wire.bodies.body import Body
from cometmq.wire.headers.fields import Int, Long


class BrokerData(Body):
    """The addresses of a master and its slaves, with their common name.

    Attributes:
        addrs: ``ip:port`` by broker id; 0 is the master.
        acting_master: whether a slave may act as master if the master is lost.
    """

    addrs: dict[Long, str] = field(name="brokerAddrs")
    broker_name: str
    cluster: str
    acting_master: bool = field(default=False, name="enableActingMaster")
    zone_name: str | None = None


class QueueData(Body):
    """The number of queues that a topic has on one broker; perm is the sum of 4 (read) and 2 (write)."""

    broker_name: str
    perm: Int
    read_queue_count: Int = field(name="readQueueNums")
    write_queue_count: Int = field(name="writeQueueNums")
    sys_flag: Int = field(default=0, name="topicSysFlag")


class TopicRoute(Body):
    """GET_ROUTEINFO_BY_TOPIC: the brokers and queues of a topic.

    Attributes:
        order_conf: ``broker-a:4;broker-b:4`` for a topic whose order an operator has fixed.
        mappings: RocketMQ's static topics, stored unchanged.
    """

    brokers: list[BrokerData] = field(name="brokerDatas")
    queues: list[QueueData] = field(name="queueDatas")
    filter_servers: dict[str, list[str]] = field(default_factory=dict, name="filterServerTable")
    order_conf: str | None = field(default=None, name="orderTopicConf")
    mappings: dict[str, Any] | None = field(default=None, name="topicQueueMappingByBroker")


class ClusterInfo(Body):
    """GET_BROKER_CLUSTER_INFO: all brokers, and the broker names of each cluster."""

    brokers: dict[str, BrokerData] = field(default_factory=dict, name="brokerAddrTable")
    clusters: dict[str, list[str]] = field(default_factory=dict, name="clusterAddrTable")


class BrokerMembers(Body):
    """A master and its slaves, as a name server reports them to each other."""

    addrs: dict[Long, str] = field(name="brokerAddrs")
    broker_name: str
    cluster: str


class BrokerMemberGroup(Body):
    """GET_BROKER_MEMBER_GROUP: the master and slaves of one broker name."""

    members: BrokerMembers = field(name="brokerMemberGroup")
