import json
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden" / "sql92.json"
COUNT = 2_000
FEW = 400
PROMPT = {"rocketmq.client.rebalance.waitInterval": "1000"}  # the client's default is 20 s
FILTERING: dict[str, object] = {"enablePropertyFilter": "true"}
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


@pytest.mark.parametrize("bitmaps", [{}, BITMAPS], ids=["plain", "bitmaps"])
@pytest.mark.parametrize("name", ["rocketmq", "cometmq"])
def test_push_consumers_get_what_their_sql_wants(
    name: str, bitmaps: dict[str, object], run_java: Run, tmp_path: Path
) -> None:
    settings = FILTERING | bitmaps | peers.PATIENT
    with peers.START[name](tmp_path / "store", settings) as peer:
        large, odd, refused = run_java("BySql", peer.namesrv, "BySql", COUNT, properties=PROMPT)
    print(f"\n{name} {sorted(bitmaps)}: {large}\n  {odd}\n  {refused}")

    check(large, odd)
    assert "CODE: 23" in refused["refused"]


@pytest.mark.parametrize("brokers", ["cometmq rocketmq cometmq", "rocketmq cometmq"])
def test_extended_queues_move_between_brokers(brokers: str, run_java: Run, tmp_path: Path) -> None:
    for hop, name in enumerate(brokers.split()):
        settings = FILTERING | BITMAPS | peers.PATIENT
        with peers.START[name](tmp_path / "store", settings) as peer:
            for topic in range(hop):
                large, odd, _ = run_java(
                    "BySql", peer.namesrv, f"BySql{topic}", FEW, f"-again{hop}", properties=PROMPT
                )
                check(large, odd)
            large, odd, _ = run_java("BySql", peer.namesrv, f"BySql{hop}", FEW, properties=PROMPT)
            check(large, odd)


def check(*consumers: dict[str, Any]) -> None:
    for received in consumers:
        assert received["received"] == received["expected"] > 0
        assert [received[what] for what in ("missing", "twice", "unexpected", "damaged")] == [[]] * 4
