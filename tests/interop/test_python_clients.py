"""The Python clients against both brokers: the tests are those of ``tests/client``, the fixtures are here."""

import pytest
from tests.client.test_consumer_end_to_end import *  # noqa: F403  all tests that are there
from tests.client.test_end_to_end import *  # noqa: F403  all tests that are there
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop


@pytest.fixture
def name_server(broker: Peer) -> str:
    return broker.namesrv


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:100]
