from cometmq.wire import bodies

ROUTE = bodies.TopicRoute(
    [bodies.BrokerData({0: "127.0.0.2:30911"}, "broker-a", "DefaultCluster")],
    [bodies.QueueData("broker-a", 6, 4, 4)],
)
# What RocketMQ's name server answered a 5.3.3 client; older clients get the broker id without quotes.
ROUTE_JSON = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.2:30911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
    b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)


def test_reads_and_writes_a_route_in_standard_json() -> None:
    assert bodies.encode(ROUTE, standard=True) == ROUTE_JSON
    assert bodies.decode(bodies.TopicRoute, ROUTE_JSON) == ROUTE


def test_reads_and_writes_a_route_as_old_clients_know_it() -> None:
    old = ROUTE_JSON.replace(b'"0"', b"0")
    assert bodies.encode(ROUTE) == old
    assert bodies.decode(bodies.TopicRoute, old) == ROUTE


def test_an_order_is_part_of_the_route_when_there_is_one() -> None:
    ordered = ROUTE_JSON.replace(b'"queueDatas"', b'"orderTopicConf":"broker-a:4","queueDatas"')
    route = bodies.decode(bodies.TopicRoute, ordered)
    assert route.order_conf == "broker-a:4"
    assert bodies.encode(route, standard=True) == ordered


def test_reads_and_writes_the_cluster_info_as_a_java_name_server_does() -> None:
    text = (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},'
        b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},'
        b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )
    addrs = {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}
    info = bodies.ClusterInfo(
        {"broker-a": bodies.BrokerData(addrs, "broker-a", "DefaultCluster")}, {"DefaultCluster": ["broker-a"]}
    )
    assert bodies.decode(bodies.ClusterInfo, text) == info
    assert bodies.encode(info) == text


def test_reads_and_writes_the_members_of_a_broker_as_a_java_name_server_does() -> None:
    text = (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"1.2.3.4:5"},"brokerName":"broker-a","cluster":"Default"}}'
    )
    group = bodies.BrokerMemberGroup(bodies.BrokerMembers({0: "1.2.3.4:5"}, "broker-a", "Default"))
    assert bodies.decode(bodies.BrokerMemberGroup, text) == group
    assert bodies.encode(group) == text
