"""The page of metrics has all of them: ``python -m tests.docs.test_metrics`` writes its tables anew."""

import json
import re
from collections.abc import Sequence
from typing import Final

import pytest
from tests.broker.metrics.reference import REFERENCE
from tests.docs.test_pages import ROOT

from cometmq.broker.metrics import families as of_broker
from cometmq.metrics.exposition import FOLDED
from cometmq.metrics.family import Family
from cometmq.namesrv import metrics as of_name_server
from cometmq.proxy import metrics as of_proxy

PAGE: Final = ROOT / "docs" / "reference" / "metrics.md"
GUIDE: Final = ROOT / "docs" / "guide" / "metrics.md"
FILES: Final = ROOT / "packaging" / "prometheus"
TABLE: Final = re.compile(r"^\| name \|.*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)
TABLES: Final = ((*of_broker.FAMILIES, FOLDED), of_name_server.FAMILIES, of_proxy.FAMILIES)
NAME: Final = re.compile(r"\b(?:rocketmq|cometmq)_[a-z0-9_]+[a-z0-9]\b(?!…)")


def table(families: Sequence[Family]) -> str:
    """Build the table of some families, in their order."""
    lines = ["| name | type | labels | unit | meaning |", "|---|---|---|---|---|"]
    lines += [
        f"| `{family.name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} "
        f"| {family.unit} | {family.meaning} |"
        for family in families
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("position", range(len(TABLES)))
def test_the_page_has_each_metric_and_what_it_means(position: int) -> None:
    written = TABLE.findall(PAGE.read_text())[position]
    assert written == table(TABLES[position]), "python -m tests.docs.test_metrics"


def test_metrics_that_the_page_says_are_missing_are() -> None:
    missing = set(NAME.findall(PAGE.read_text().partition("Not there,")[2]))
    ours = {family.name for families in TABLES for family in families}
    assert len(missing - ours) >= 6
    assert missing & ours == {"cometmq_send_latency_milliseconds"}
    assert missing - ours <= REFERENCE.keys()


def test_board_and_alerts_use_metrics_that_there_are() -> None:
    ours = {family.name for families in TABLES for family in families}
    ours |= {f"cometmq_send_latency_milliseconds_{part}" for part in ("bucket", "count", "sum")}
    board, alerts = (FILES / "dashboard.json").read_text(), (FILES / "alerts.yml").read_text()
    expressions = [target["expr"] for panel in json.loads(board)["panels"] for target in panel["targets"]]
    assert len(expressions) >= 10
    for text in (*expressions, *re.findall(r"expr: (.+)", alerts)):
        assert set(NAME.findall(text)) <= ours, text


def test_the_guide_names_each_alert() -> None:
    alerts = re.findall(r"alert: (\w+)", (FILES / "alerts.yml").read_text())
    assert re.findall(r"^\| `(CometMQ\w+)` \|", GUIDE.read_text(), re.MULTILINE) == alerts


if __name__ == "__main__":
    tables = iter(map(table, TABLES))
    PAGE.write_text(TABLE.sub(lambda _: next(tables), PAGE.read_text()))
