"""The files in ``packaging/`` are what their readers take them for.

Neither systemd nor a container engine runs here: systemd's own checker reads the units, and the commands in
all files are parsed as those in the pages are.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.kit.documented_settings import CONF, conf
from tests.kit.pages import ROOT, parse

from cometmq.broker import settings as broker_settings
from cometmq.net.settings_file import read_file

PACKAGING: Final = ROOT / "packaging"
UNITS: Final = sorted((PACKAGING / "systemd").glob("*.service"))
COMMAND: Final = "/srv/cometmq/bin/cometmq"
EXPOSURE_MAX: Final = 15
"""Tenths of the points that systemd gives for what a unit leaves open, of 100."""

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_there_is(unit: Path) -> None:
    (line,) = re.findall(rf"^ExecStart={COMMAND} (.*)$", unit.read_text(), re.MULTILINE)
    parse([word for word in line.split() if not word.startswith("$")])


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_understands_a_unit_and_finds_little_left_open(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(COMMAND, sys.executable))  # which is there to be found
    verified = analyze("verify", str(copy))
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stderr
    rated = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(copy))
    assert rated.returncode == 0, rated.stdout


def test_the_containers_run_commands_that_there_are() -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    parse(json.loads(command))
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE) == ['["cometmq"]']
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"], "no root"


def test_the_services_agree_with_each_other_and_their_settings_with_the_broker() -> None:
    composed: dict[str, Any] = yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())
    for service in composed["services"].values():
        parse(service["command"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), "insecure"
    content = composed["configs"]["broker"]["content"]
    values = dict(line.split("=", 1) for line in content.splitlines() if line and line[0] != "#")
    assert values.keys() <= broker_settings.known_names()
    name_server, _, _ = broker_settings.from_properties(values).network.namesrv_addr.partition(":")
    assert name_server in composed["services"]
    assert composed["services"]["broker"]["volumes"] == [f"store:{values['storePathRootDir']}"]


def test_the_settings_file_has_all_settings_and_changes_none(tmp_path: Path) -> None:
    assert CONF.read_text() == conf(), "python -m tests.docs.test_settings"
    assert read_file(CONF) == {}
    every = tmp_path / "broker.conf"
    lines = [line.removeprefix("#") for line in conf().splitlines() if re.match(r"#\w+=", line)]
    assert {line.partition("=")[0] for line in lines} == broker_settings.known_names()
    given = [line for line in lines if not line.endswith("=")]
    every.write_text("\n".join(given).replace("the host's name", socket.gethostname()))
    assert broker_settings.load(every) == broker_settings.load(None)
