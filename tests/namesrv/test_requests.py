"""Each request to a name server and its answer, without sockets."""

import asyncio
import json
import logging
import zlib
from collections.abc import Mapping

import pytest

from cometmq.errors import FormatError, HeaderError
from cometmq.io.clock import ManualClock
from cometmq.namesrv.kv_config import KvConfig
from cometmq.namesrv.name_server import CONFIG_CHANGES
from cometmq.namesrv.requests import NameServerRequests, Registering
from cometmq.namesrv.routes import RouteTable
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicTable, encode, registration
from cometmq.wire.codes import RequestCode, ResponseCode, Version
from cometmq.wire.frame import Command, response

ADDR = "192.0.2.1:10911"
BROKER = {"brokerName": "broker-a", "brokerAddr": ADDR, "clusterName": "c", "brokerId": "0"}
REGISTER = {**BROKER, "haServerAddr": "192.0.2.1:10912"}


class Scene:
    """The requests to one name server."""

    def __init__(self, *, order_messages: bool = False) -> None:
        self.routes = RouteTable()
        settings = {"listenPort": "9876", "orderMessageEnable": str(order_messages).lower()}
        self.requests = NameServerRequests(self.routes, KvConfig(), ManualClock(), settings)

    def ask(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        version: int = Version.V5_3_3,
    ) -> Command:
        command = Command(code, 7, version=version, ext_fields=dict(fields or {}), body=body)
        if command.code == RequestCode.REGISTER_BROKER:
            answer = last_of(self.requests.register(command, "link"))
        elif command.code in CONFIG_CHANGES:
            answer = asyncio.run(self.change_config(command))
        else:
            answer = self.requests.answer(command)
        assert answer.is_response and answer.opaque == 7
        return answer

    async def change_config(self, command: Command) -> Command:
        saved = asyncio.get_running_loop().create_future()
        refusal = self.requests.change_config(command, saved.set_result)
        if refusal is not None:
            return refusal
        assert await saved is None
        return response(command)

    def ask_json(self, code: int, fields: Mapping[str, str] | None = None) -> object:
        answer = self.ask(code, fields)
        assert answer.code == 0
        return json.loads(answer.body)

    def register(self, fields: Mapping[str, str] = REGISTER, *topics: str) -> Command:
        body = encode(topics_of(*topics or ("T", "U")))
        return self.ask(RequestCode.REGISTER_BROKER, fields, body)


def last_of(steps: Registering) -> Command:
    """Run all steps of a registration."""
    given = None
    while True:
        try:
            work = steps.send(given)
        except StopIteration as end:
            answer: Command = end.value
            return answer
        given = work() if work is not None else None


def topics_of(*topics: str) -> Registration:
    table = {topic: TopicConfig(topic, 4, 4, sys_flag=len(topic)) for topic in topics}
    return Registration([], TopicTable(DataVersion(3, 0, 9), table))


def registered(*topics: str) -> Scene:
    here = Scene()
    assert here.register(REGISTER, *topics).code == 0
    return here


def route_body(here: Scene, version: int, fields: Mapping[str, str] | None = None) -> str:
    answer = here.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", **(fields or {})}, version=version)
    assert answer.code == 0 and answer.remark is None
    return answer.body.decode()


STANDARD_ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{"0":"192.0.2.1:10911"},"brokerName":"broker-a","cluster":"c",'
    '"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
    '"readQueueNums":4,"topicSysFlag":1,"writeQueueNums":4}]}'
)


def test_new_clients_get_a_route_in_standard_json() -> None:
    assert route_body(registered(), Version.V4_9_4) == STANDARD_ROUTE


def test_old_clients_get_number_keys_without_quotes_unless_they_cannot_read_them() -> None:
    here = registered()
    assert route_body(here, Version.V4_9_3) == STANDARD_ROUTE.replace('"0":', "0:")
    assert route_body(here, Version.V4_9_3, {"acceptStandardJsonOnly": "true"}) == STANDARD_ROUTE
    assert route_body(here, Version.V4_9_3, {"acceptStandardJsonOnly": "false"}) != STANDARD_ROUTE


def test_a_topic_without_a_route_is_answered_with_a_hint() -> None:
    here = registered("OrderEvents", "T")
    answer = here.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "OrderEvent"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == (
        "No topic route info in name server for the topic: OrderEvent\n"
        "2 topics are known here; did you mean OrderEvents?"
    )
    far = here.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "x" * 10_000})
    assert (
        far.remark is not None and far.remark.endswith("2 topics are known here.") and len(far.remark) < 400
    )


def test_a_name_server_without_brokers_says_so() -> None:
    answer = Scene().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert (answer.remark or "").endswith("No topic is known here: no broker has registered yet.")


def test_a_route_names_the_order_of_queues_only_where_that_is_enabled() -> None:
    for enabled in (True, False):
        here = Scene(order_messages=enabled)
        here.register()
        here.ask(
            RequestCode.PUT_KV_CONFIG,
            {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"},
        )
        assert ('"orderTopicConf":"broker-a:4"' in route_body(here, Version.V5_3_3)) is enabled


@pytest.mark.parametrize(
    "order", ["broker-a:2147483647", "b:+131073", "a:65536;b:65537", "b:99999999999999999999:4"]
)
def test_an_order_of_more_queues_than_a_topic_can_have_is_refused(order: str) -> None:
    here = Scene(order_messages=True)
    here.register()
    put = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": order}
    refused = here.ask(RequestCode.PUT_KV_CONFIG, put)
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "at most 131072 queues are possible (routeQueuesMax)" in (refused.remark or "")
    assert "orderTopicConf" not in route_body(here, Version.V5_3_3)
    assert here.ask(RequestCode.PUT_KV_CONFIG, put | {"namespace": "OTHERS"}).code == 0
    assert here.ask(RequestCode.PUT_KV_CONFIG, put | {"value": "a:65536;b:x;c;b:65535"}).code == 0


@pytest.mark.parametrize("long", ["namespace", "key", "value"])
def test_texts_have_a_limit_in_all_and_names_count(long: str) -> None:
    here, text = Scene(), {"namespace": "N", "key": "k", "value": "v"}
    for number in range(3):
        one = text | {"namespace": f"N{number}"} | {long: f"{number}" * 1_000_000}
        assert here.ask(RequestCode.PUT_KV_CONFIG, one).code == 0
    too_long = text | {long: "3" * 2_000_000}
    refused = here.ask(RequestCode.PUT_KV_CONFIG, too_long)
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "at most 4194304 are possible: delete some first (DELETE_KV_CONFIG)" in (refused.remark or "")
    name = {"namespace": too_long["namespace"], "key": too_long["key"]}
    assert here.ask(RequestCode.GET_KV_CONFIG, name).code == ResponseCode.QUERY_NOT_FOUND


def test_topics_that_are_left_out_are_named_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    here = Scene()
    topics = {f"T{n}": TopicConfig(f"T{n}", 2**31 - 1, 4) for n in range(12)}
    body = encode(Registration([], TopicTable(DataVersion(1, 0, 7), topics)))
    for _ in range(2):
        assert here.ask(RequestCode.REGISTER_BROKER, REGISTER, body).code == 0
    (line,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "broker broker-a: 12 topics are left out: topic 'T0': 2147483647 queues to read" in line
    assert line.count("topicQueuesMax") == 10 and line.endswith("; …")


def test_a_broker_learns_the_order_of_topics_when_it_registers() -> None:
    here = Scene()
    assert here.register().body == b""
    here.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "b:4"})
    assert json.loads(here.register().body) == {"table": {"T": "b:4"}}


def test_a_slave_learns_its_master_when_it_registers() -> None:
    here = registered()
    slave = {**REGISTER, "brokerId": "1", "brokerAddr": "192.0.2.2:10911"}
    assert here.register(slave).ext_fields == {"haServerAddr": "192.0.2.1:10912", "masterAddr": ADDR}


@pytest.mark.parametrize("said", ["true", "false"])
@pytest.mark.parametrize("version", [Version.V4_9_7, Version.V5_3_3])
def test_a_compressed_registration_is_read_whether_or_not_it_is_said_to_be_one(
    version: Version, said: str
) -> None:
    here = Scene()
    body = registration.encode(topics_of("T", "U"), compressed=True)
    fields = {**REGISTER, "compressed": said, "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
    assert here.ask(RequestCode.REGISTER_BROKER, fields, body, version).code == 0
    assert here.routes.topics() == ["T", "U"]


def test_a_registration_with_a_wrong_checksum_is_refused() -> None:
    here = Scene()
    answer = here.register({**REGISTER, "bodyCrc32": "5"})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert here.routes.topics() == []


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":5}', b"\xff"])
@pytest.mark.parametrize("compressed", ["true", "false"])
def test_a_registration_that_cannot_be_read_is_refused(body: bytes, compressed: str) -> None:
    here = Scene()
    with pytest.raises(FormatError):
        here.ask(RequestCode.REGISTER_BROKER, {**REGISTER, "compressed": compressed}, body)
    assert here.routes.cluster_info().brokers == {}


def test_a_registration_without_a_body_brings_a_broker_without_topics() -> None:
    here = Scene()
    assert here.ask(RequestCode.REGISTER_BROKER, REGISTER).code == 0
    assert here.routes.broker("broker-a") is not None


def test_one_changed_topic_of_an_unknown_broker_is_refused() -> None:
    answer = Scene().register(REGISTER, "T")
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "register broker failed")


def test_a_topic_with_an_illegal_name_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        registered("T", "../../etc\n")
    assert "1 topics are left out: topic '../../etc\\n': its name is illegal" in caplog.text


def test_a_broker_unregisters() -> None:
    here = registered()
    assert here.ask(RequestCode.UNREGISTER_BROKER, BROKER).code == 0
    assert here.routes.topics() == []


def test_a_heartbeat_is_answered() -> None:
    assert registered().ask(RequestCode.BROKER_HEARTBEAT, BROKER).code == 0


def test_a_broker_learns_whether_it_must_register_again() -> None:
    here = registered()
    ours = encode(DataVersion(3, 0, 9))
    same = here.ask(RequestCode.QUERY_DATA_VERSION, BROKER, ours)
    assert (same.ext_fields, same.body) == ({"changed": "false"}, ours)
    other = here.ask(RequestCode.QUERY_DATA_VERSION, BROKER, encode(DataVersion(4, 0, 9)))
    assert (other.ext_fields, other.body) == ({"changed": "true"}, ours)
    unknown = Scene().ask(RequestCode.QUERY_DATA_VERSION, BROKER, ours)
    assert (unknown.ext_fields, unknown.body) == ({"changed": "true"}, b"")
    assert Scene().ask(RequestCode.QUERY_DATA_VERSION, BROKER).ext_fields == {"changed": "true"}


def test_cluster_info_has_number_keys_without_quotes() -> None:
    answer = registered().ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert answer.body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"192.0.2.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["broker-a"]}}'
    )


def test_the_members_of_a_group_are_told() -> None:
    here = registered()
    fields = {"clusterName": "c", "brokerName": "broker-a"}
    assert here.ask(RequestCode.GET_BROKER_MEMBER_GROUP, fields).body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"192.0.2.1:10911"},"brokerName":"broker-a","cluster":"c"}}'
    )
    nobody = here.ask(RequestCode.GET_BROKER_MEMBER_GROUP, {**fields, "brokerName": "b"})
    assert nobody.body == b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b","cluster":"c"}}'


def test_topics_are_listed() -> None:
    here = registered("T", "UU", "VVV")
    assert here.ask_json(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"topicList": ["T", "UU", "VVV"]}
    assert here.ask_json(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "c"}) == {
        "topicList": ["T", "UU", "VVV"]
    }
    assert here.ask_json(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "d"}) == {"topicList": []}
    assert here.ask_json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {
        "brokerAddr": ADDR,
        "topicList": ["c", "broker-a"],
    }
    assert Scene().ask_json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {"topicList": []}
    assert here.ask_json(RequestCode.GET_UNIT_TOPIC_LIST) == {"topicList": ["T", "VVV"]}
    assert here.ask_json(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == {"topicList": ["UU", "VVV"]}
    assert here.ask_json(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == {"topicList": ["UU"]}


def test_write_permission_is_wiped_and_given_back() -> None:
    here = registered()
    wiped = here.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert wiped.ext_fields == {"wipeTopicCount": "2"}
    assert '"perm":4' in route_body(here, Version.V5_3_3)
    added = here.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert added.ext_fields == {"addTopicCount": "2"}
    assert '"perm":6' in route_body(here, Version.V5_3_3)


def test_a_topic_is_registered_and_deleted_by_name() -> None:
    here = registered()
    queues = (
        b'{"brokerDatas":[],"queueDatas":[{"brokerName":"%s","perm":6,"readQueueNums":1,"writeQueueNums":1}]}'
    )
    assert here.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "V"}, queues % b"broker-a").code == 0
    assert here.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "W"}, queues % b"nobody").code == 0
    assert here.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "W"}).code == 0
    assert here.routes.topics() == ["T", "U", "V"]
    assert here.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "V"}).code == 0
    assert here.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T", "clusterName": "d"}).code == 0
    assert here.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "U", "clusterName": "c"}).code == 0
    assert here.routes.topics() == ["T"]


def test_texts_are_kept_by_namespace_and_key() -> None:
    here = Scene()
    key = {"namespace": "n", "key": "k"}
    missing = here.ask(RequestCode.GET_KV_CONFIG, key)
    assert missing.code == ResponseCode.QUERY_NOT_FOUND
    assert missing.remark == "No config item, Namespace: n Key: k"
    missing = here.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, key)
    assert (missing.code, missing.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: n")
    assert here.ask(RequestCode.PUT_KV_CONFIG, {**key, "value": "v"}).code == 0
    assert here.ask(RequestCode.GET_KV_CONFIG, key).ext_fields == {"value": "v"}
    assert here.ask_json(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}) == {"table": {"k": "v"}}
    assert here.ask(RequestCode.DELETE_KV_CONFIG, key).code == 0
    assert here.ask(RequestCode.GET_KV_CONFIG, key).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"kvConfigPath=/tmp/evil\n", ResponseCode.NO_PERMISSION, "kvConfigPath cannot be changed"),
        (b"orderMessageEnable=true\nlistenPort=1\n", ResponseCode.NO_PERMISSION, "listenPort"),
        (b"orderMessageEnable=maybe", ResponseCode.INVALID_PARAMETER, "'maybe': must be true or false"),
        (b"x" * 100_000, ResponseCode.INVALID_PARAMETER, "settings of 100000 bytes"),
    ],
)
def test_a_setting_that_cannot_be_changed_is_refused_and_the_others_with_it(
    body: bytes, code: ResponseCode, words: str
) -> None:
    here = Scene()
    refused = here.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert refused.code == code and words in (refused.remark or "")
    shown = here.ask(RequestCode.GET_NAMESRV_CONFIG).body
    assert shown == b"listenPort=9876\norderMessageEnable=false\n"


def test_the_order_of_queues_can_be_switched_on_while_it_runs() -> None:
    here = Scene()
    here.register()
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
    here.ask(RequestCode.PUT_KV_CONFIG, order)
    for value in ("true", "false"):
        body = f"orderMessageEnable={value}\n".encode()
        assert here.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body).code == ResponseCode.SUCCESS
        assert body in here.ask(RequestCode.GET_NAMESRV_CONFIG).body
        assert ("orderTopicConf" in route_body(here, Version.V5_3_3)) is (value == "true")
    assert here.ask(RequestCode.UPDATE_NAMESRV_CONFIG).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("code", [10, 11, 34, 107, 905, 200050, -1])
def test_what_a_name_server_does_not_do_is_answered_so(code: int) -> None:
    answer = Scene().ask(code)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == f" request type {code} not supported"


@pytest.mark.parametrize(
    ("code", "field"),
    [
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, "topic"),
        (RequestCode.REGISTER_BROKER, "brokerName"),
        (RequestCode.UNREGISTER_BROKER, "brokerName"),
        (RequestCode.BROKER_HEARTBEAT, "clusterName"),
        (RequestCode.QUERY_DATA_VERSION, "brokerName"),
        (RequestCode.GET_BROKER_MEMBER_GROUP, "clusterName"),
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, "brokerName"),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, "brokerName"),
        (RequestCode.GET_TOPICS_BY_CLUSTER, "cluster"),
        (RequestCode.REGISTER_TOPIC_IN_NAMESRV, "topic"),
        (RequestCode.DELETE_TOPIC_IN_NAMESRV, "topic"),
        (RequestCode.PUT_KV_CONFIG, "namespace"),
        (RequestCode.GET_KV_CONFIG, "namespace"),
        (RequestCode.DELETE_KV_CONFIG, "namespace"),
        (RequestCode.GET_KVLIST_BY_NAMESPACE, "namespace"),
    ],
)
def test_a_missing_field_is_named(code: RequestCode, field: str) -> None:
    with pytest.raises(HeaderError, match=f"{field}: missing"):
        Scene().ask(code)
