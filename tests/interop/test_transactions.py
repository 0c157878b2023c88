"""Messages in transactions, sent by the real producer to either broker."""

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.groups import JUDGED
from tests.interop.jvm import Run
from tests.interop.received import each_once

pytestmark = pytest.mark.interop

COUNT = 120
PLANS = 6
ASKED_PLANS = 4
COMMITTED_PLANS = 4
SOON: dict[str, object] = peers.PATIENT | {
    "transactionTimeOut": 1_000,
    "transactionCheckMax": 1_000,  # a Java broker takes 20 s to stop, and asks on
}
ASKING: dict[str, dict[str, object]] = {
    # A Java broker asks again for what is not answered, or not noted as ended, by its next round; and then it
    # commits for each of the answers. Ours may ask as often as it likes.
    "rocketmq": SOON | {"transactionCheckInterval": 5_000, "transactionOpBatchInterval": 100},
    "cometmq": SOON | {"transactionCheckInterval": 1_000},
}


def without_doubles_of_java(name: str, consumer: dict[str, Any]) -> dict[str, Any]:
    """Return what a consumer got: on a slow machine a Java broker asks, and then commits, twice."""
    return consumer | {"twice": []} if name == "rocketmq" else consumer


WELL = each_once("committed", COUNT // PLANS * COMMITTED_PLANS)


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_committed_comes_once_and_what_is_rolled_back_never(
    name: str, run_java: Run, tmp_path: Path
) -> None:
    """Lasts half a minute, as the next one does: a question may be asked in the third round only."""
    with peers.START[name](tmp_path / "store", ASKING[name], ended_by=signal.SIGKILL) as peer:
        committed, asked = run_java("Transact", peer.namesrv, "Transacted", COUNT, "all")
    assert without_doubles_of_java(name, committed) == WELL
    assert asked["strange"] == {}
    assert asked["asked"] >= COUNT // PLANS * ASKED_PLANS
    assert asked["most"] >= 2


@pytest.mark.parametrize(
    ("brokers", "ended_by"),
    [
        pytest.param(
            *("rocketmq cometmq", signal.SIGTERM), id="rocketmq-first", marks=pytest.mark.interop_long
        ),
        pytest.param("rocketmq cometmq", signal.SIGKILL, id="rocketmq-first-killed"),
        pytest.param("cometmq rocketmq", signal.SIGKILL, id="cometmq-first-killed"),
        pytest.param("cometmq cometmq", signal.SIGKILL, id="cometmq-alone-killed"),
    ],
)
def test_the_next_broker_asks_for_what_nobody_has_ended(
    brokers: str, ended_by: signal.Signals, run_java: Run, tmp_path: Path
) -> None:
    """Lasts half a minute: a Java broker asks each five seconds, and what is settled must see a round."""
    port = peers.free_port()
    for name, role in zip(brokers.split(), ("leave", "finish"), strict=True):
        with peers.START[name](tmp_path / "store", ASKING[name], port=port, ended_by=ended_by) as peer:
            *consumed, asked = run_java("Transact", peer.namesrv, "Left", COUNT, role)
            assert asked["strange"] == {}
    if (brokers, ended_by) == ("rocketmq cometmq", signal.SIGKILL):
        consumed[0]["twice"] = []  # a Java broker that is killed does not know what it has put back already
    assert [without_doubles_of_java(name, consumer) for consumer in consumed] == [WELL]
    assert asked["asked"] == COUNT
