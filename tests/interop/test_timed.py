"""Timed messages, sent by the real producer to either broker."""

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.jvm import Run
from tests.interop.received import each_once

pytestmark = pytest.mark.interop

COUNT = 150
SOON_MS = 3_000
LATER_MS = 12_000
MUCH_LATER_MS = 30_000
"""Time for a store to move, and for the next broker to start and be asked."""
RECALLS: dict[str, object] = peers.PATIENT | {"brokerName": "broker-a", "recallMessageEnable": "true"}
"""A handle names the broker: one that goes on with the store of another must have its name."""


def well(count: int) -> list[dict[str, Any]]:
    """Give what is said if all goes well with so many messages."""
    return [each_once("timed", count), {"early": []}]


WELL = well(COUNT)


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


@pytest.mark.parametrize("with_topic", ["false", "true"])
@pytest.mark.parametrize("name", ["rocketmq", "cometmq"])
def test_what_the_producer_takes_back_does_not_come(
    name: str, with_topic: str, run_java: Run, tmp_path: Path
) -> None:
    settings = RECALLS | {"appendTopicForTimerDeleteKey": with_topic}
    with peers.START[name](tmp_path / "store", settings, ended_by=signal.SIGKILL) as peer:
        assert run_java("Recall", peer.namesrv, "Recalled", COUNT, SOON_MS, "all") == well(COUNT // 3)


@pytest.mark.parametrize("brokers", ["rocketmq cometmq", "cometmq rocketmq"])
@pytest.mark.parametrize(
    ("ended_by", "names_topic"),
    [
        pytest.param(signal.SIGKILL, "false", id="killed"),
        pytest.param(signal.SIGTERM, "true", id="stopped-by-topic-and-id"),
    ],
)
def test_what_is_taken_back_at_one_broker_or_by_its_handle_at_the_next_does_not_come_there(
    brokers: str, ended_by: signal.Signals, names_topic: str, run_java: Run, tmp_path: Path
) -> None:
    port, handles = peers.free_port(), ""
    for name, role in zip(brokers.split(), ("leave", "finish"), strict=True):
        settings = RECALLS
        if name == "rocketmq" or role == "leave":  # CometMQ knows both names, whatever it gives itself
            settings = RECALLS | {"appendTopicForTimerDeleteKey": names_topic}
        with peers.START[name](tmp_path / "store", settings, port=port, ended_by=ended_by) as peer:
            said = run_java("Recall", peer.namesrv, "Recalled", COUNT, MUCH_LATER_MS, role, handles)
            handles = ",".join(said[0].get("handles", ()))
    if ended_by == signal.SIGKILL:
        said[0]["twice"] = []  # what was put since the last save is put again
    assert said == well(COUNT // 3)


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
