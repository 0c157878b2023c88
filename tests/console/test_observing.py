import pytest
from tests.console.conftest import ROOT

from cometmq.client import PullConsumer
from cometmq.client.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from cometmq.console.observing import Observations, observe, observing_cluster
from cometmq.console.settings import ConsoleSettings
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_lags_are_observed_where_there_are_no_users(broker: EmbeddedBroker) -> None:
    for _ in range(3):
        broker.send(Message("orders", b"x"), queue_id=0)
    async with PullConsumer(broker.name_server, "billing") as reader:
        (queue,) = [one for one in await reader.queues("orders") if one.queue_id == 0]
        await reader.commit(queue, 1)
    cluster = observing_cluster(ConsoleSettings(broker.name_server))
    assert cluster is not None
    found = Observations()
    async with cluster:
        await observe(cluster, found, lambda: 1_000)
    assert not found.has_users
    assert found.lags.of_group("billing").queues[queue] == [2]
    assert found.lags.of_group("billing").times == [1_000]


async def test_a_cluster_has_users_where_brokers_check_them(guarded: EmbeddedBroker) -> None:
    cluster = observing_cluster(ConsoleSettings(guarded.name_server, credentials=ROOT, login=True))
    assert cluster is not None
    found = Observations()
    async with cluster:
        await observe(cluster, found, lambda: 0)
    assert found.has_users


async def test_a_cluster_that_does_not_answer_leaves_all_as_it_was() -> None:
    cluster = observing_cluster(ConsoleSettings(f"127.0.0.1:{free_port()}"))
    assert cluster is not None
    found = Observations()
    async with cluster:
        await observe(cluster, found, lambda: 0)
    assert found.lags.of_group("g").times == [] and not found.has_users


def test_the_console_has_no_user_of_its_own_where_visitors_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ACCESS_KEY_VARIABLE, raising=False)
    monkeypatch.delenv(SECRET_KEY_VARIABLE, raising=False)
    assert observing_cluster(ConsoleSettings("n:1", login=True)) is None
    monkeypatch.setenv(ACCESS_KEY_VARIABLE, "a")
    monkeypatch.setenv(SECRET_KEY_VARIABLE, "b")
    assert observing_cluster(ConsoleSettings("n:1", login=True)) is not None
