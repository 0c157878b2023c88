"""Fixtures of the interop tests.

Each test is run against Apache RocketMQ's own broker, too: a judgement that the reference does not pass
would be worth nothing. Where that needs a broker of its own, and judges nothing else, ``make interop-long``
does it.
``pytest tests/interop -m interop -k cometmq`` leaves the reference out.
"""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any, Final

import pytest
from tests.interop import jvm, peers
from tests.interop.groups import OneProcessPerGroup, in_group
from tests.interop.programs import Programs
from tests.signatures import INNER, USER

RESTING: Final = peers.PATIENT | {
    "transactionOpMsgMaxSize": 1,  # what has ended it notes at once …
    "transactionOpBatchInterval": 3_600_000,  # … since so long after that its thread would never rest again
}
"""Settings with which a Java broker rests even after a transaction.

They are for brokers that are not restarted: what the next one finds of ended transactions they would change.
"""

SETTINGS: dict[str, object] = RESTING | {
    "brokerName": peers.BROKER_NAME,
    "loadBalancePollNameServerInterval": "500",  # a broker tells members of new topics soon
    "messageDelayLevel": "1s 1s 1s 1s 1s",  # messages that failed come again soon
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
}
PROVIDER: Final = "org.apache.rocketmq.auth.{kind}.provider.Local{name}MetadataProvider"
AUTHENTICATING: Final[dict[str, object]] = RESTING | {
    "brokerName": peers.BROKER_NAME,
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": PROVIDER.format(kind="authentication", name="Authentication"),
    "authorizationMetadataProvider": PROVIDER.format(kind="authorization", name="Authorization"),
    "initAuthenticationUser": json.dumps({"username": USER.access_key, "password": USER.secret_key}),
    "innerClientAuthenticationCredentials": INNER,
    "recallMessageEnable": "true",
}
SOON: dict[str, object] = peers.PATIENT | {"transactionTimeOut": 1_000}
ASKS_SOON: dict[str, dict[str, object]] = {
    # What a Java broker has not noted as ended by its next round it asks for, and commits once more.
    "rocketmq": RESTING | SOON | {"transactionCheckInterval": 5_000},
    "cometmq": SOON | {"transactionCheckInterval": 1_000},
}


BEGIN_FIRST = (
    "_shared",
    "test_pop_moves",
    "test_store_moves",
    "test_timed",
    "test_store_clean",
    "test_failover",
    "test_sql92",
    "test_broker_restart",
    "test_transactions",
)
"""In the names of tests that take longest: the last ones are short, and all processes end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest."""

    def rank(item: pytest.Item) -> int:
        is_interop = item.get_closest_marker("interop") is not None
        found = (number for number, text in enumerate(BEGIN_FIRST) if is_interop and text in item.nodeid)
        return next(found, len(BEGIN_FIRST))

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneProcessPerGroup:
    return OneProcessPerGroup(config, log)


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], peers.Peer]]:
    """Return what starts a broker when its name is asked for first: it serves all tests of the session."""
    with ExitStack() as running:

        @cache
        def of_name(name: str) -> peers.Peer:
            store = tmp_path_factory.mktemp(name) / "store"
            return running.enter_context(peers.START[name](store, SETTINGS, ended_by=signal.SIGKILL))

        yield of_name


@pytest.fixture(params=[in_group(name, "shared") for name in peers.START])
def broker(request: pytest.FixtureRequest, shared_brokers: Callable[[str], peers.Peer]) -> peers.Peer:
    """Return a broker that others use, too: for tests that neither stop nor configure it."""
    return shared_brokers(request.param)


@pytest.fixture(scope="session")
def java_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peers.Peer]:
    """Run a RocketMQ that handles requests of known users only: for tests in the group ``signatures``."""
    store = tmp_path_factory.mktemp("authenticating") / "store"
    with peers.rocketmq(store, AUTHENTICATING, ended_by=signal.SIGKILL) as peer:
        yield peer


@pytest.fixture(scope="session", params=[in_group(name, "transactions") for name in peers.START])
def asking_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[peers.Peer]:
    """Start a broker that soon asks about open transactions: RocketMQ's waits for six seconds, and then asks
    each half a minute."""
    store = tmp_path_factory.mktemp(request.param) / "store"
    with peers.START[request.param](store, ASKS_SOON[request.param], ended_by=signal.SIGKILL) as peer:
        yield peer


@pytest.fixture(params=["JSON", "ROCKETMQ"])
def serialize_type(request: pytest.FixtureRequest) -> str:
    """How the client encodes the headers of its frames."""
    return str(request.param)


@pytest.fixture(scope="session")
def run_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jvm.Run]:
    """Run a Java program of this folder and return the lines that it printed."""
    with Programs(tmp_path_factory.mktemp("java")) as programs:
        yield programs.run
