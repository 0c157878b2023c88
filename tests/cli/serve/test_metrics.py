import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.broker.metrics.scraped import ask_blocking
from tests.cli.conftest import Process, Run


def ready(process: Process) -> Any:
    return json.loads(process.line())


@pytest.mark.parametrize("command", ["dev", "broker", "namesrv"])
def test_a_server_shows_metrics_and_health_when_a_port_is_named(tmp_path: Path, command: str) -> None:
    store = () if command == "namesrv" else ("--store", str(tmp_path / "s"))
    with Process(command, "--port", "0", "--metrics-port", "0", "--json", *store) as process:
        address = ready(process)["metrics"]
        assert address.startswith("127.0.0.1:")
        assert ask_blocking(address, "/readyz").text == "ready\n"
        assert ask_blocking(address, "/healthz").text == "alive\n"
        assert "# TYPE cometmq_" in ask_blocking(address, "/metrics").text
        ended = process.kill(signal.SIGTERM)
        assert ended.code == 0 and "Traceback" not in ended.err


def test_dev_shows_none_unless_it_is_asked_to(tmp_path: Path) -> None:
    with Process("dev", "--port", "0", "--json", "--store", str(tmp_path / "s")) as process:
        assert "metrics" not in ready(process)


def test_a_file_switches_them_on_by_the_names_of_rocketmq(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("metricsExporterType=PROM\nmetricsPromExporterPort=0\nmetricsLabel=zone:a\n")
    arguments = ("--config", str(config), "--port", "0", "--store", str(tmp_path / "s"))
    with Process("broker", *arguments, "--json") as process:
        text = ask_blocking(ready(process)["metrics"], "/metrics?name[]=rocketmq_broker_permission").text
        assert 'zone="a"' in text and text.endswith(" 6.0\n")


def test_an_exporter_that_is_not_there_is_named_with_those_that_are(cometmq: Run, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("metricsExporterType=OTLP_GRPC\n")
    ended = cometmq("broker", "--config", str(config), "--store", str(tmp_path / "s"))
    assert ended.code == 2 and "metricsExporterType" in ended.err and "OTLP_GRPC" in ended.err
