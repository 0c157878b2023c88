"""Metrics beside those of a real RocketMQ broker, and read by a real Prometheus.

Prometheus is Debian's package ``prometheus`` (``apt-get install prometheus``), of which no service need run.
"""

import json
import os
import shutil
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.broker.metrics.reference import REFERENCE
from tests.broker.metrics.scraped import OF_ALL_SERIES, ask_blocking
from tests.interop import peers
from tests.interop.groups import JUDGED
from tests.interop.patience import PATIENCE_S, wait_until

from cometmq import Message, Start, StoredMessage
from cometmq.blocking import Consumer, Producer

pytestmark = pytest.mark.interop

FILES = Path(__file__).parents[2] / "packaging" / "prometheus"
NOT_LABELS = OF_ALL_SERIES | {"otel_scope_name", "le"}
SENT = 20
SOMETIMES_WITHOUT_RETRY = {"rocketmq_messages_out_total", "rocketmq_throughput_out_total"}
"""Families whose series of a RocketMQ broker lack the label ``is_retry`` if they are of pulls."""
FAMILIES_MIN = 14
"""Families that a broker with one topic and no group shows at least."""
needs_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="there is no Prometheus: apt-get install prometheus",
)


def families_of(text: str) -> dict[str, tuple[str, set[frozenset[str]]]]:
    """Return type and labels of each family by its name in the text."""
    found = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {frozenset(sample.labels) - NOT_LABELS for sample in family.samples}
        found[name] = (family.type, labels)
    return found


@pytest.mark.parametrize("name", JUDGED)
def test_each_family_has_the_type_and_labels_of_the_reference(name: str, tmp_path: Path) -> None:
    port = peers.free_port()
    settings = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": port,
        "metricsPromExporterHost": peers.HOST,
    }
    with peers.START[name](tmp_path / "store", settings) as peer:
        send(peer.namesrv)
        ask = partial(ask_blocking, f"{peers.HOST}:{port}", "/metrics")
        wait_until(lambda: "rocketmq_messages_in_total{" in ask().text)
        text = ask().text
    found = {family: shown for family, shown in families_of(text).items() if family.startswith("rocketmq_")}
    assert len(found) >= FAMILIES_MIN and found.keys() <= REFERENCE.keys()
    for family, (kind, labels) in found.items():
        reference = REFERENCE[family]
        left_out = {"is_retry"} if family in SOMETIMES_WITHOUT_RETRY else set()
        assert kind == reference.kind, family
        for series in labels:
            assert reference.labels - left_out <= series <= reference.labels, family
    sent = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "rocketmq_messages_in_total" and sample.labels["topic"] == "metrics"
    ]
    assert sent == [SENT]


def send(namesrv: str) -> None:
    with Producer(namesrv) as producer:
        for number in range(SENT):
            producer.send(Message("metrics", b"%d" % number))


@needs_prometheus
def test_promtool_accepts_the_rules() -> None:
    ran = subprocess.run(
        ["promtool", "check", "rules", str(FILES / "alerts.yml")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and "12 rules found" in ran.stdout, ran


@needs_prometheus
def test_alerts_fire_and_clear_as_their_names_say() -> None:
    ran = subprocess.run(
        ["promtool", "test", "rules", str(FILES / "alerts_test.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0 and "SUCCESS" in ran.stdout, ran


class Prometheus(NamedTuple):
    """A Prometheus that scrapes a port each second."""

    process: peers.Process
    address: str
    port: int

    def ask(self, path: str) -> Any:
        """Return the data of an answer of its API."""
        return json.loads(ask_blocking(self.address, f"/api/v1/{path}").text)["data"]

    def values(self, expression: str) -> list[str]:
        """Return the present values of an expression."""
        found = self.ask(f"query?query={urllib.parse.quote(expression)}")
        return [one["value"][1] for one in found["result"]]

    def firing(self, name: str) -> list[dict[str, str]]:
        """Return the labels of each alert of that name that fires now."""
        alerts = self.ask("alerts")["alerts"]
        found = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return [labels for labels in found if labels["alertname"] == name]


def quick_rules() -> str:
    """Return the rules with ten seconds where an alert of a consumer that is stuck has ten minutes."""
    text = (FILES / "alerts.yml").read_text()
    for wanted, quick in (("[10m]", "[10s]"), ("> 540000", "> 5000")):
        assert wanted in text
        text = text.replace(wanted, quick)
    return text


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    target, port = peers.free_port(), peers.free_port()
    rules = tmp_path / "alerts.yml"
    rules.write_text(quick_rules())
    config = tmp_path / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(rules)],
                "scrape_configs": [
                    {"job_name": "cometmq", "static_configs": [{"targets": [f"{peers.HOST}:{target}"]}]}
                ],
            }
        )
    )
    address = f"{peers.HOST}:{port}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with peers.Process(command, ready="Server is ready", environment=os.environ) as process:
        yield Prometheus(process, address, target)


@needs_prometheus
def test_prometheus_scrapes_a_broker_and_sees_what_was_sent(prometheus: Prometheus, tmp_path: Path) -> None:
    settings = {"metricsExporterType": "PROM", "metricsPromExporterPort": prometheus.port}
    with peers.cometmq(tmp_path / "store", settings) as peer:
        send(peer.namesrv)
        wait_until(lambda: prometheus.values('rocketmq_messages_in_total{topic="metrics"}') == [str(SENT)])
        assert prometheus.values("up") == ["1"]
        (group,) = prometheus.ask("rules")["groups"]
        assert len(group["rules"]) == 12
        assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}


@needs_prometheus
def test_an_alert_fires_while_a_consumer_is_stuck_and_clears_when_it_goes_on(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    settings = {"metricsExporterType": "PROM", "metricsPromExporterPort": prometheus.port}
    freed = threading.Event()
    with peers.cometmq(tmp_path / "store", settings) as peer:
        send(peer.namesrv)
        consumer = Consumer(peer.namesrv, group="stuck", start=Start.FIRST)

        @consumer.on("metrics")
        def handle(message: StoredMessage) -> None:
            assert message.body == b"0" or freed.wait(PATIENCE_S)

        with consumer:
            try:
                wait_until(lambda: prometheus.firing("CometMQConsumerStuck"))
                (labels,) = prometheus.firing("CometMQConsumerStuck")
                assert (labels["consumer_group"], labels["topic"]) == ("stuck", "metrics")
            finally:
                freed.set()
            wait_until(lambda: not prometheus.firing("CometMQConsumerStuck"))
            lag = 'rocketmq_consumer_lag_messages{consumer_group="stuck",is_retry="false"}'
            wait_until(lambda: prometheus.values(lag) == ["0"])
