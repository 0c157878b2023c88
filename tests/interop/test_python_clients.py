"""The Python clients against both brokers: all end-to-end tests of the clients, with fixtures of here."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop

TESTS = Path(__file__).parents[1]


@pytest.fixture
def name_server(broker: Peer) -> str:
    return broker.namesrv


def end_to_end_tests() -> dict[str, Any]:
    """Return all of them by their names."""
    found: dict[str, Any] = {}
    for path in sorted(TESTS.rglob("test_*_end_to_end.py")):
        module = ".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts))
        tests = {name: test for name, test in vars(import_module(module)).items() if name.startswith("test_")}
        assert tests and not found.keys() & tests.keys(), (
            f"{module}: other tests are called {found.keys() & tests.keys()}"
        )
        found |= tests
    return found


globals().update(end_to_end_tests())
