"""Bodies by which clients find brokers.

RocketMQ: ``TopicRouteData.java``, ``ClusterInfo.java``, ``BrokerMemberGroup.java``.

Java clients before 4.9.4 want the broker ids of a route as keys without quotes, later ones standard JSON:
``encode(route, standard=...)``. GET_BROKER_CLUSTER_INFO and GET_BROKER_MEMBER_GROUP never have quotes.
"""

from typing import Any

from msgspec import field

from cometmq.wire.bodies.body import Body
from cometmq.wire.headers.fields import Int, Long


class BrokerData(Body):
    """A master and its slaves.

    Attributes:
        addrs: broker id → ``ip:port``; 0 is the master.
        acting_master: whether a slave may stand in for a lost master.
    """

    addrs: dict[Long, str] = field(name="brokerAddrs")
    broker_name: str
    cluster: str
    acting_master: bool = field(default=False, name="enableActingMaster")
    zone_name: str | None = None


class QueueData(Body):
    """The queues that a topic has on one broker; perm is 4 read, 2 write, added up."""

    broker_name: str
    perm: Int
    read_queue_count: Int = field(name="readQueueNums")
    write_queue_count: Int = field(name="writeQueueNums")
    sys_flag: Int = field(default=0, name="topicSysFlag")


class TopicRoute(Body):
    """GET_ROUTEINFO_BY_TOPIC: where a topic's queues are.

    Attributes:
        order_conf: ``broker-a:4;broker-b:4`` for a topic whose order is fixed by an operator.
        mappings: RocketMQ's static topics, kept as they are.
    """

    brokers: list[BrokerData] = field(name="brokerDatas")
    queues: list[QueueData] = field(name="queueDatas")
    filter_servers: dict[str, list[str]] = field(default_factory=dict, name="filterServerTable")
    order_conf: str | None = field(default=None, name="orderTopicConf")
    mappings: dict[str, Any] | None = field(default=None, name="topicQueueMappingByBroker")


class ClusterInfo(Body):
    """GET_BROKER_CLUSTER_INFO: all brokers, and the names of those of each cluster."""

    brokers: dict[str, BrokerData] = field(default_factory=dict, name="brokerAddrTable")
    clusters: dict[str, list[str]] = field(default_factory=dict, name="clusterAddrTable")


class BrokerMembers(Body):
    """A master and its slaves, as they know of each other."""

    addrs: dict[Long, str] = field(name="brokerAddrs")
    broker_name: str
    cluster: str


class BrokerMemberGroup(Body):
    """GET_BROKER_MEMBER_GROUP."""

    members: BrokerMembers = field(name="brokerMemberGroup")
