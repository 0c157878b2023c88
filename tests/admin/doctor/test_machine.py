from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cometmq.admin.doctor import machine
from cometmq.admin.doctor.findings import Diagnosis, Level
from cometmq.broker.settings import BrokerSettings, from_properties
from cometmq.kernels.compiling import cache
from cometmq.net.address import free_port
from cometmq.net.tls.settings import TlsMode
from cometmq.store.settings import StoreSettings

SOUND = StoreSettings(disk_max_used_space_ratio=100, disk_space_warning_level_ratio=100)
Free = Callable[[int], None]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Free:
    """Sets how much of a disk of 100 GiB is free, in GiB."""

    class Usage:
        used = free = 0

    def set_free(free_gib: int) -> None:
        Usage.used, Usage.free = (100 - free_gib) << 30, free_gib << 30

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    monkeypatch.setattr(machine, "_file_system", lambda _: [])
    return set_free


def test_names_that_have_no_effect_are_listed_and_the_settings_used(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nlistenPrt=10911\n")
    settings, (found,) = machine.read_settings(file)
    assert settings is not None and settings.broker.identity.broker_name == "a"
    assert found.level is Level.WARNING and found.text.endswith("did you mean listenPort?")


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    settings, (found,) = machine.read_settings(tmp_path / "none.conf")
    assert settings is None and "none.conf cannot be read" in found.text


@pytest.mark.parametrize(
    ("free_gib", "level", "words"),
    [
        (50, Level.OK, "50.0 GiB free"),
        (20, Level.WARNING, "diskMaxUsedSpaceRatio = 75"),
        (5, Level.FAULT, "diskSpaceWarningLevelRatio = 90"),
    ],
)
def test_a_disk_is_judged_by_the_settings(
    disk: Free, tmp_path: Path, free_gib: int, level: Level, words: str
) -> None:
    disk(free_gib)
    (found,) = machine._directory(tmp_path / "to" / "be" / "made", StoreSettings())
    assert found.level is level and words in found.text


def test_a_disk_without_room_for_the_next_files_is_a_fault(disk: Free, tmp_path: Path) -> None:
    disk(1)
    (found,) = machine._directory(tmp_path, SOUND)
    assert found.level is Level.FAULT and "two more files of the log" in found.text


def test_contents_with_which_a_broker_does_not_start_are_a_fault(
    disk: Free, foreign: Mapping[str, Path]
) -> None:
    disk(100)
    _, found = machine._directory(foreign["pops"], SOUND)
    assert (found.level, found.subject) == (Level.FAULT, str(foreign["pops"] / "kvStore"))
    assert "in flight by pops" in found.text and "exportPopRecord" in found.remedy


def test_a_directory_of_another_user_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # the administrator may write anywhere
    (found,) = machine._directory(tmp_path / "store", SOUND)
    assert found.level is Level.FAULT and "chown" in found.remedy


@pytest.mark.parametrize(("kind", "remedy"), [("tmpfs", "disk"), ("overlay", "volume"), ("nfs4", "local")])
def test_a_file_system_that_loses_messages_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, remedy: str
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nother {tmp_path}/with\\040blank {kind} rw 0 0\n")
    store = tmp_path / "with blank" / "store"
    assert machine.file_system_of(store, mounts) == kind
    assert machine.file_system_of(tmp_path, mounts) == "ext4"
    assert machine.file_system_of(tmp_path, tmp_path / "none") == ""
    monkeypatch.setattr(machine, "file_system_of", lambda _: kind)
    (found,) = machine._file_system(store)
    assert found.level is Level.WARNING and remedy in found.remedy


@pytest.mark.parametrize(
    ("settings", "level", "words"),
    [
        ({"namesrv_addr": ""}, Level.WARNING, "no name server"),
        ({"namesrv_addr": "192.0.2.9:9876"}, Level.FAULT, "their own"),
        ({"namesrv_addr": "127.0.0.1:9876"}, Level.OK, "127.0.0.1:10911"),
        (
            {"namesrv_addr": "127.0.0.1:9876", "broker_ip": "192.0.2.77"},
            Level.WARNING,
            "not an address of this",
        ),
    ],
)
def test_the_address_that_would_be_advertised_is_judged(
    settings: dict[str, Any], level: Level, words: str
) -> None:
    (found,) = machine._advertised(BrokerSettings.of(**settings))
    assert found.level is level and words in f"{found.subject}: {found.text}"
    assert bool(found.remedy) is (level is not Level.OK)


async def test_the_ports_of_metrics_are_examined_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refusal(_: str, port: int) -> str:
        asked.append(port)
        return "stop it" if port == 5557 else ""

    monkeypatch.setattr(machine, "_refusal", refusal)
    settings = from_properties({"listenPort": str(free_port()), "metricsExporterType": "PROM"})
    (found,) = await machine._ports(settings, {})
    assert asked == [settings.network.listen_port, settings.network.listen_port - 2, 5557]
    assert found.level is Level.FAULT and found.subject.startswith("metricsPromExporterPort")


@pytest.mark.parametrize(("is_there", "is_warm", "word"), [(False, False, "pip"), (True, False, "kernels")])
def test_missing_kernels_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, is_there: bool, is_warm: bool, word: str
) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda _: object() if is_there else None)
    monkeypatch.setattr(cache, "is_warm", lambda: is_warm)
    assert word in machine._kernels().remedy
    monkeypatch.setattr(cache, "is_warm", lambda: True)
    assert machine._kernels().level is (Level.OK if is_there else Level.WARNING)


def test_tls_without_a_certificate_is_a_fault() -> None:
    found: list[Diagnosis] = machine._certificate(from_properties({"tlsServerMode": "enforcing"}))
    assert [one.level for one in found] == [Level.FAULT] and "tlsServerCertPath" in found[0].remedy
    assert machine._certificate(BrokerSettings()) == []


def test_signatures_that_are_required_without_tls_are_warned_of() -> None:
    own = BrokerSettings.of(bind_address="0.0.0.0", authentication_enabled=True)
    (found,) = machine._exposure(own)
    assert found.level is Level.WARNING and "signed and not encrypted" in found.text
    assert found.remedy.startswith("Demand TLS") and "tlsServerCertPath" in found.remedy
    assert machine._exposure(own.changed(tls_server_mode=TlsMode.PERMISSIVE)) == []
