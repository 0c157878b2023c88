import json
from pathlib import Path

import pytest
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden" / "sql92.json"


def test_the_golden_answers_are_those_of_the_java_filter(tmp_path: Path, run_java: Run) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    cases = {"properties": golden["properties"], "expressions": list(golden["answers"])}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    answers = {
        line["expression"]: line["answers"] for line in run_java("FilterCases", tmp_path / "cases.json")
    }
    assert answers == golden["answers"]
