"""The page of metrics has all of them: ``python -m tests.docs.test_metrics`` writes its tables anew."""

import json
import re
from collections.abc import Sequence
from typing import Final

import pytest
from tests.broker.metrics.reference import REFERENCE, ReferenceFamily
from tests.kit.pages import ROOT

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


def beside_reference() -> str:
    """Build the table of all families of a RocketMQ 5.5.0 broker, and what is here in their place."""
    ours = {family.name: family for family in of_broker.FAMILIES}
    lines = ["| name | type in 5.5.0 | labels in 5.5.0 | here |", "|---|---|---|---|"]
    for name, reference in REFERENCE.items():
        own = ours.get(name)
        is_same = own is not None and ReferenceFamily(own.kind, frozenset(own.labels)) == reference
        here = "the same" if is_same else "other labels or type" if own else "not there"
        labels = ", ".join(f"`{label}`" for label in sorted(reference.labels))
        lines.append(f"| `{name}` | {reference.kind} | {labels} | {here} |")
    return "\n".join(lines) + "\n"


def tables() -> list[str]:
    """Build all tables of the page, in their order."""
    return [*map(table, TABLES), beside_reference()]


@pytest.mark.parametrize("position", range(len(tables())))
def test_the_page_has_each_metric_and_what_it_means(position: int) -> None:
    written = TABLE.findall(PAGE.read_text())[position]
    assert written == tables()[position], "python -m tests.docs.test_metrics"


def test_each_metric_that_is_here_has_the_type_and_labels_of_the_reference() -> None:
    here = [line for line in beside_reference().splitlines() if line.startswith("| `")]
    assert len(here) == len(REFERENCE) and not [line for line in here if "other" in line]
    assert len([line for line in here if line.endswith("the same |")]) >= 20


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
    anew = iter(tables())
    PAGE.write_text(TABLE.sub(lambda _: next(anew), PAGE.read_text()))
