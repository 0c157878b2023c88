"""RocketMQ 5's own clients for Python and Node.js, which have the same programs, and what Python's signs."""

import asyncio

import pytest
from tests.interop import proxies
from tests.interop.groups import in_group
from tests.interop.grpc_clients.clients import Client, Run, bodies, each_way, texts
from tests.interop.grpc_clients.cluster import create_group, create_topic, dead_letters_of, send_compressed
from tests.interop.peers import Peer
from tests.signatures import USER

from cometmq.admin import access
from cometmq.admin.cluster import ClusterAdmin
from cometmq.net.tls.throwaway import CertificateFiles
from cometmq.wire.bodies.access import PolicyEntryInfo, UserInfo

pytestmark = pytest.mark.interop

at_each_broker = each_way("broker", "shared", "Python", "Node")


@at_each_broker
def test_a_message_arrives_as_it_was_sent(broker: Peer, proxy: str, client: Client) -> None:
    topic = create_topic(broker, client.named("Normal"))
    sent = {"body": "a chair", "tag": "red", "keys": "order-1", "properties": {"shop": "7"}}
    (receipt,) = client.run("send", proxy, topic, *texts(sent))
    (received,) = client.run("receive", proxy, topic, client.named("Normal"), 1)
    assert {name: received[name] for name in ("body", "tag")} == {"body": "a chair", "tag": "red"}
    assert received["keys"] == ["order-1"] and received["properties"]["shop"] == "7"
    assert received["message_id"] == receipt["message_id"]
    assert received["attempt"] == 1 and not received["corrupted"]


@at_each_broker
def test_a_compressed_body_arrives_as_it_was(broker: Peer, proxy: str, client: Client) -> None:
    topic, body = create_topic(broker, client.named("Compressed")), "a chair, " * 10_000
    send_compressed(broker, topic, body)
    if (client.name, client.proxy) == ("Node", "Theirs"):  # whose body stays zlib, which Node takes for gzip
        with pytest.raises(AssertionError, match="incorrect header check"):
            client.run("receive", proxy, topic, topic, 1)
        return
    (received,) = client.run("receive", proxy, topic, topic, 1)
    assert received["body"] == body and not received["corrupted"]


@at_each_broker
@pytest.mark.parametrize(
    ("kind", "expression"), [("TAG", "red || blue"), ("SQL", "TAGS IN ('red', 'blue') AND size > 1")]
)
def test_a_filter_lets_through_what_it_names(
    broker: Peer, proxy: str, client: Client, kind: str, expression: str
) -> None:
    topic = create_topic(broker, client.named(f"Filter{kind}"))
    colors = [{"body": tag, "tag": tag, "properties": {"size": "2"}} for tag in ("red", "green", "blue")]
    client.run("send", proxy, topic, *texts(*colors))
    lines = client.run("receive", proxy, topic, topic, 2, expression, kind)
    assert sorted(bodies(lines)) == ["blue", "red"]


@at_each_broker
def test_a_message_that_fails_comes_again_and_becomes_a_dead_letter(
    broker: Peer, proxy: str, client: Client
) -> None:
    name = client.named("Fails")
    topic, group = create_topic(broker, name), create_group(broker, name, retry_max_times=1)
    client.run("send", proxy, topic, *texts({"body": "broken"}))
    *deliveries, end = client.run("fail", proxy, topic, group, 2)
    assert [(line["body"], line["attempt"]) for line in deliveries] == [("broken", 1), ("broken", 2)]
    assert end == {"then": 0}
    assert dead_letters_of(broker, group) == ["broken"]


@at_each_broker
def test_a_delayed_message_comes_in_time_and_a_recalled_one_never(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Delay"), "DELAY")
    (recalled,) = client.run("recall", proxy, topic)
    assert recalled["is_the_first"]
    (received,) = client.run("receive", proxy, topic, client.named("Delay"), 1)
    assert received["body"] == "delayed" and received["received"] >= recalled["due"]


@at_each_broker
def test_each_message_group_keeps_its_order_and_one_that_fails_holds_up_its_own(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Fifo"), "FIFO", queues=4)
    settings = {"retry_max_times": 1, "consume_message_orderly": True}
    group = create_group(broker, client.named("Fifo"), **settings)
    failing = "a1" if client.name == "Python" else "none"  # Node's gives one that fails up at once
    names = [f"{letter}{number}" for number in range(4) for letter in "abc"]
    messages = [{"body": name, "message_group": f"group-{name[0]}"} for name in names]
    client.run("send", proxy, topic, *texts(*messages))
    handled = client.run("consume", proxy, topic, group, len(names) + (failing in names), failing)
    for letter in "abc":
        of_group = [name for name in bodies(handled) if name[0] == letter]
        again = [failing] if failing[0] == letter else []
        assert of_group == sorted([*again, *(name for name in names if name[0] == letter)])
    if failing in names:
        assert dead_letters_of(broker, group) == [failing]


@each_way("broker", "shared", "Python")
def test_a_message_of_an_ordered_group_that_comes_again_says_so(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Ordered"), "FIFO", queues=1)
    group = create_group(broker, client.named("Ordered"), consume_message_orderly=True)
    messages = [{"body": name, "message_group": "g"} for name in ("first", "second")]
    client.run("send", proxy, topic, *texts(*messages))
    received = client.run("receive_twice", proxy, topic, group)
    attempts = [(line["body"], line["attempt"]) for line in received]
    assert attempts == [("first", 1), ("first", 2), ("second", 1)]


@each_way("asking_broker", "transactions", "Python", "Node")
def test_a_transaction_is_committed_rolled_back_or_asked_for(
    asking_broker: Peer, asking_proxy: str, client: Client
) -> None:
    topic = create_topic(asking_broker, client.named("Transaction"), "TRANSACTION")
    asked, *received = client.run("transact", asking_proxy, topic, client.named("Transaction"))
    assert asked["asked"]["body"] == "left open"
    assert sorted(bodies(received)) == ["committed", "left open"]


async def create_shop(broker: Peer, name: str) -> None:
    """Create a user of a broker, who may send to the topic of its name, and receive in that group."""
    async with ClusterAdmin(broker.namesrv, credentials=USER) as admin:
        await access.add_user(admin, UserInfo(name, "secret"))
        for resource, actions in ((f"Topic:{name}", ["Pub", "Sub"]), (f"Group:{name}", ["Sub"])):
            await access.add_entry(admin, name, PolicyEntryInfo(resource, actions, decision="Allow"))


@pytest.mark.parametrize("_name", [in_group("rocketmq", "signatures")])
def test_what_the_python_client_signs_is_judged_by_the_users_of_a_java_broker(
    _name: str, java_broker: Peer, certificate: CertificateFiles, run_python: Run
) -> None:
    for name in ("GrpcSigned", "GrpcOther"):
        create_topic(java_broker, name, credentials=USER)
    asyncio.run(create_shop(java_broker, "GrpcSigned"))
    with proxies.cometmq_proxy(java_broker.namesrv, certificate, USER) as proxy:
        run_python("send", f"GrpcSigned:secret@{proxy}", "GrpcSigned", *texts({"body": "signed"}))
        received = run_python("receive", f"GrpcSigned:secret@{proxy}", "GrpcSigned", "GrpcSigned", 1)
        assert bodies(received) == ["signed"]
        for user, topic in (("GrpcSigned:wrong", "GrpcSigned"), ("GrpcSigned:secret", "GrpcOther")):
            with pytest.raises(AssertionError, match="failed to fetch topic"):
                run_python("send", f"{user}@{proxy}", topic, *texts({"body": "refused"}))
