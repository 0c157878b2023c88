"""Where the end-to-end tests find a broker; ``tests/interop`` has fixtures of these names for its brokers."""

from collections.abc import Iterator

import pytest
from tests.live import in_thread


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a name server whose broker makes topics by itself."""
    with in_thread(tmp_path_factory.mktemp("broker")) as live:
        yield live.name_server


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Give a topic of the test's own."""
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:100]
