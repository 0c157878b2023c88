import json
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden" / "sql92.json"
COUNT = 2_000
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
    settings = {"enablePropertyFilter": "true"} | bitmaps | (peers.PATIENT if name == "rocketmq" else {})
    with peers.START[name](tmp_path / "store", settings) as peer:
        large, odd, refused = run_java("BySql", peer.namesrv, "BySql", COUNT)
    print(f"\n{name} {sorted(bitmaps)}: {large}\n  {odd}\n  {refused}")

    for received in (large, odd):
        assert received["received"] == received["expected"] > 0
        assert [received[what] for what in ("missing", "twice", "unexpected", "damaged")] == [[]] * 4
    assert "SUBSCRIPTION_PARSE_FAILED" in refused["refused"] or "CODE: 23" in refused["refused"]
