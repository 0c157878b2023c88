"""RocketMQ 5's own client for Java, which connects by TLS where the others connect plainly."""

import pytest
from tests.interop.grpc_clients.clients import Client, bodies, each_way
from tests.interop.grpc_clients.cluster import create_group, create_topic, dead_letters_of, send_compressed
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop


@each_way("broker", "shared", "Java")
def test_what_fails_at_a_push_consumer_of_java_comes_again(broker: Peer, proxy: str, client: Client) -> None:
    name = client.named("Push")
    topic, group = create_topic(broker, name), create_group(broker, name, retry_max_times=1)
    names = [f"m{number}" for number in range(8)]
    handled = client.run("Push", proxy, topic, group, "none", len(names) + 1, "m3", *names)
    attempts = sorted((line["body"], line["attempt"]) for line in handled)
    assert attempts == sorted([*((name, 1) for name in names), ("m3", 2)])


@each_way("broker", "shared", "Java")
def test_a_compressed_body_arrives_at_java_as_it_was(broker: Peer, proxy: str, client: Client) -> None:
    topic, body = create_topic(broker, client.named("Compressed")), "a chair, " * 10_000
    group = create_group(broker, client.named("Compressed"))
    send_compressed(broker, topic, body)
    assert bodies(client.run("Push", proxy, topic, group, "none", 1, "none")) == [body]


@each_way("broker", "shared", "Java")
def test_a_push_consumer_of_java_keeps_the_order_of_each_message_group(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("PushFifo"), "FIFO", queues=4)
    settings = {"retry_max_times": 1, "consume_message_orderly": True}
    group = create_group(broker, client.named("PushFifo"), **settings)
    names = [f"{letter}{number}" for number in range(4) for letter in "abc"]
    handled = client.run("Push", proxy, topic, group, "groups", len(names) + 1, "a1", *names)
    for letter in "abc":
        again = ["a1"] if letter == "a" else []
        expected = sorted([*again, *(name for name in names if name[0] == letter)])
        assert [name for name in bodies(handled) if name[0] == letter] == expected
    assert dead_letters_of(broker, group) == ["a1"]


@each_way("asking_broker", "transactions", "Java")
def test_transactions_of_java_are_committed_rolled_back_or_asked_for(
    asking_broker: Peer, asking_proxy: str, client: Client
) -> None:
    topic = create_topic(asking_broker, client.named("Transact"), "TRANSACTION")
    asked, *received = client.run("TransactAndReceive", asking_proxy, topic, topic)
    assert asked == {"asked": "left open"}
    assert sorted(bodies(received)) == ["committed", "left open"]
