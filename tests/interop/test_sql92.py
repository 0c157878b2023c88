import json
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.groups import JUDGED, in_group
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden" / "sql92.json"
COUNT = 2_000
FEW = 400
FILTERING: dict[str, object] = peers.PATIENT | {"enablePropertyFilter": "true"}
BITMAPS: dict[str, object] = {
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": 4_096,
}


def test_the_golden_answers_are_those_of_the_java_filter(tmp_path: Path, run_java: Run) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    cases = {"properties": golden["properties"], "expressions": list(golden["answers"])}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    lines = run_java("FilterCases", tmp_path / "cases.json")
    answers = {line["expression"]: line["answers"] for line in lines}
    assert answers == golden["answers"]


def test_push_consumers_get_what_their_sql_wants(broker: peers.Peer, run_java: Run) -> None:
    judge(broker, run_java)


@pytest.mark.parametrize("name", JUDGED)
def test_push_consumers_get_what_their_sql_wants_by_bitmaps(name: str, run_java: Run, tmp_path: Path) -> None:
    with peers.START[name](tmp_path / "store", FILTERING | BITMAPS, ended_by=signal.SIGKILL) as peer:
        judge(peer, run_java)


@pytest.mark.parametrize("broker", [in_group("cometmq", "shared")], indirect=True)
def test_a_push_consumer_with_a_newer_filter_goes_on_before_its_next_heartbeat(
    broker: peers.Peer, run_java: Run
) -> None:
    """RocketMQ refuses its pulls until then."""
    (received,) = run_java("NewerSubscription", broker.namesrv, "NewerSubscription", FEW)
    check(received)


def judge(peer: peers.Peer, run_java: Run) -> None:
    large, odd, refused = run_java("BySql", peer.namesrv, "BySql", COUNT)
    print(f"\n{peer.name}: {large}\n  {odd}\n  {refused}")

    check(large, odd)
    assert "CODE: 23" in refused["refused"]


@pytest.mark.parametrize(
    "brokers",
    [
        "cometmq rocketmq cometmq",
        pytest.param("rocketmq cometmq", marks=pytest.mark.interop_long),
    ],
)
def test_extended_queues_move_between_brokers(brokers: str, run_java: Run, tmp_path: Path) -> None:
    """Lasts half a minute: consumers wait until nothing more comes; a Java broker needs 10 s to stop."""
    for hop, name in enumerate(brokers.split()):

        def consume(topic: int, peer: peers.Peer, hop: int = hop) -> None:
            again = [f"-again{hop}"] if topic < hop else []
            large, odd, _ = run_java("BySql", peer.namesrv, f"BySql{topic}", FEW, *again)
            check(large, odd)

        with (
            peers.START[name](tmp_path / "store", FILTERING | BITMAPS) as peer,
            ThreadPoolExecutor() as pool,
        ):
            list(pool.map(partial(consume, peer=peer), range(hop + 1)))


def check(*consumers: dict[str, Any]) -> None:
    for received in consumers:
        assert received["received"] == received["expected"] > 0
        assert [received[what] for what in ("missing", "twice", "unexpected", "damaged")] == [[]] * 4
