import json
from collections import defaultdict
from pathlib import Path

import pytest
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden" / "rebalance.json"


def test_the_golden_shares_are_those_of_the_java_strategies(run_java: Run) -> None:
    shares: dict[str, dict[str, list[list[int]]]] = defaultdict(lambda: defaultdict(list))
    for line in run_java("Assignments"):
        case = f"{line['queues']} queues, {line['clients']} clients"
        shares[line["strategy"]][case].append(line["share"])
    assert shares == json.loads(GOLDEN.read_text())
