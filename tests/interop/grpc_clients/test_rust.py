"""RocketMQ 5's client for Rust, the crate ``rocketmq``.

It has producers of each type of messages and a simple consumer, which neither hides messages for longer nor
filters by SQL92.
"""

import pytest
from tests.interop.grpc_clients.clients import Client, bodies, each_way
from tests.interop.grpc_clients.cluster import create_group, create_topic
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop

at_each_broker = each_way("broker", "shared", "Rust")


@at_each_broker
def test_a_message_arrives_as_it_was_sent_and_others_are_filtered(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Normal"))
    (received,) = client.run("normal", proxy, topic, client.named("Normal"))
    del received["received"]
    named = {"tag": "red", "keys": ["order-1"], "shop": "7"}
    assert received == {"topic": topic, "body": "a chair", "attempt": 1} | named


@at_each_broker
def test_a_message_group_keeps_its_order(broker: Peer, proxy: str, client: Client) -> None:
    topic = create_topic(broker, client.named("Fifo"), "FIFO", queues=4)
    group = create_group(broker, client.named("Fifo"), consume_message_orderly=True)
    assert bodies(client.run("ordered", proxy, topic, group)) == ["a0", "a1", "a2", "a3"]


@at_each_broker
def test_a_delayed_message_comes_in_time(broker: Peer, proxy: str, client: Client) -> None:
    topic = create_topic(broker, client.named("Delay"), "DELAY")
    due, received = client.run("delayed", proxy, topic, client.named("Delay"))
    assert received["body"] == "delayed" and received["received"] >= due["due"]


@each_way("asking_broker", "transactions", "Rust")
def test_a_transaction_is_committed_rolled_back_or_asked_for(
    asking_broker: Peer, asking_proxy: str, client: Client
) -> None:
    name = client.named("Transaction")
    create_topic(asking_broker, name, "TRANSACTION")
    asked, *received = client.run("transacted", asking_proxy, name, name)
    assert asked == {"asked": "left open"}
    assert sorted(bodies(received)) == ["committed", "left open"]
