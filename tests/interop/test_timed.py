"""Timed messages, sent by the real producer to either broker."""

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

COUNT = 150
SOON_MS = 3_000
LATER_MS = 12_000

WELL: list[dict[str, Any]] = [
    {
        "consumer": "timed",
        "expected": COUNT,
        "received": COUNT,
        "missing": [],
        "twice": [],
        "unexpected": [],
        "damaged": [],
    },
    {"early": []},
]


@pytest.mark.parametrize("name", ["rocketmq", "cometmq"])
def test_each_comes_once_and_not_before_its_second(name: str, run_java: Run, tmp_path: Path) -> None:
    with peers.START[name](tmp_path / "store", peers.PATIENT, ended_by=signal.SIGKILL) as peer:
        assert run_java("Timed", peer.namesrv, "Timed", COUNT, SOON_MS, "all") == WELL


@pytest.mark.parametrize("name", ["rocketmq", "cometmq"])
def test_what_waits_in_stages_comes_once_and_not_before_its_second(
    name: str, run_java: Run, tmp_path: Path
) -> None:
    settings = peers.PATIENT | {"timerRollWindowSlot": 3}
    with peers.START[name](tmp_path / "store", settings, ended_by=signal.SIGKILL) as peer:
        assert run_java("Timed", peer.namesrv, "Staged", COUNT, LATER_MS, "all") == WELL


@pytest.mark.parametrize(
    ("brokers", "ended_by"),
    [
        pytest.param("rocketmq cometmq", signal.SIGTERM, id="rocketmq-first"),
        pytest.param("rocketmq cometmq", signal.SIGKILL, id="rocketmq-first-killed"),
        pytest.param("cometmq rocketmq", signal.SIGTERM, id="cometmq-first"),
        pytest.param("cometmq rocketmq", signal.SIGKILL, id="cometmq-first-killed"),
        pytest.param("cometmq cometmq", signal.SIGKILL, id="cometmq-alone-killed"),
    ],
)
def test_the_next_broker_gives_out_what_the_one_before_it_left(
    brokers: str, ended_by: signal.Signals, run_java: Run, tmp_path: Path
) -> None:
    port = peers.free_port()
    for name, role in zip(brokers.split(), ("leave", "finish"), strict=True):
        with peers.START[name](tmp_path / "store", peers.PATIENT, port=port, ended_by=ended_by) as peer:
            verdict = run_java("Timed", peer.namesrv, "Left", COUNT, LATER_MS, role)
    if ended_by == signal.SIGKILL:
        verdict[0]["twice"] = []  # what came since the last save comes again
    assert verdict == WELL
