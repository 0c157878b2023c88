"""Fixtures of the interop tests.

Each test is run against Apache RocketMQ's own broker first: a judgement that the reference does not pass
would be worth nothing. ``pytest tests/interop -m interop -k cometmq`` leaves the reference out.
"""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.interop import jvm, peers

SETTINGS: dict[str, object] = peers.PATIENT | {
    "messageDelayLevel": "1s 1s 1s 1s 1s",  # messages that failed come again soon
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
}


@pytest.fixture(scope="session", params=["rocketmq", "cometmq"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[peers.Peer]:
    store = tmp_path_factory.mktemp(request.param) / "store"
    with peers.START[request.param](store, SETTINGS, ended_by=signal.SIGKILL) as peer:
        yield peer


@pytest.fixture(params=["JSON", "ROCKETMQ"])
def serialize_type(request: pytest.FixtureRequest) -> str:
    """How the client encodes the headers of its frames."""
    return str(request.param)


@pytest.fixture
def run_java(tmp_path: Path) -> jvm.Run:
    """Run a Java program of this folder and give the lines that it printed."""
    return partial(jvm.run, home=tmp_path)
