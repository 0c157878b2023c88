"""Broken set-ups, each of real servers: the doctor finds the fault, names the remedy, and ends with 1."""

import os
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.cli.conftest import COMMAND, PATIENCE_S, Run
from tests.live import BROKER, in_thread

from cometmq.io.files import Disk, Usage
from cometmq.namesrv.access import NameServerAccess
from cometmq.net import exposure
from cometmq.net.address import free_port
from cometmq.net.tls.settings import TlsMode
from cometmq.testing.clock import MovableClock

HOST = "127.0.0.1"


@contextmanager
def listening() -> Iterator[int]:
    """Listen at a port as another program does."""
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        yield other.getsockname()[1]


def examined(cometmq: Run, *arguments: str) -> dict[str, Any]:
    """Run the doctor for its JSON; check that the exit code is that of its findings."""
    ran = cometmq("doctor", "--json", *arguments)
    (found,) = ran.values
    assert ran.code == (1 if found["faults"] else 0), ran
    assert isinstance(found, dict)
    return found


def faults(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return text and remedy of each fault, by its check; there is at most one of each."""
    of = [one for one in found["findings"] if one["level"] == "fault"]
    assert len({one["check"] for one in of}) == len(of) == found["faults"], of
    return {one["check"]: (f"{one['subject']}: {one['text']}", one["remedy"]) for one in of}


def only_fault(found: dict[str, Any], check: str, *words: str) -> str:
    """Check that there is one fault, with these words in its text; return the remedy."""
    assert list(faults(found)) == [check], found
    text, remedy = faults(found)[check]
    assert [word for word in words if word not in text] == [], text
    return remedy


def written(path: Path, **settings: object) -> Path:
    """Write a broker's settings file, for ports that are free unless they are given."""
    port = free_port()
    values: dict[str, object] = {
        "brokerName": BROKER,
        "listenPort": port,
        "vipChannelEnable": "false",
        "storePathRootDir": path / "store",
        "diskSpaceWarningLevelRatio": 100,
    }
    file = path / "broker.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in (values | settings).items()))
    return file


def test_nothing_listens_where_the_name_server_should(cometmq: Run) -> None:
    remedy = only_fault(examined(cometmq, "-n", f"{HOST}:{free_port()}"), "name server", "refused")
    assert "cometmq namesrv" in remedy and "--namesrv" in remedy


def test_the_address_is_that_of_a_broker_and_no_name_server(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path) as live:
        found = examined(cometmq, "-n", live.broker)
    assert "9876" in only_fault(found, "name server", "is a broker, not a name server")


def test_a_name_server_knows_no_broker(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path, namesrv_addr="") as live:
        found = examined(cometmq, "-n", live.name_server)
    assert "namesrvAddr" in only_fault(found, "name server", "knows no broker")


def test_a_broker_advertises_an_address_where_it_does_not_listen(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path, broker_ip="127.0.0.2") as live:
        found = examined(cometmq, "-n", live.name_server)
    assert "brokerIP1" in only_fault(found, "address", BROKER, "127.0.0.2", "refused")


def test_a_broker_advertises_loopback_to_clients_on_other_machines(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposure, "is_loopback", lambda _: True)  # what these listen at is nobody's matter
    with in_thread(tmp_path, broker_ip=HOST) as live:
        # 127.0.0.1 has other names, that of this machine's network only there where it has one
        monkeypatch.setattr("cometmq.admin.doctor.brokers.is_loopback", lambda host: host == HOST)
        found = examined(cometmq, "-n", live.name_server.replace(HOST, "localhost"))
    assert "brokerIP1" in only_fault(found, "address", "its own machine", "localhost")


def test_the_clocks_of_broker_and_operator_differ(cometmq: Run, tmp_path: Path) -> None:
    clock = MovableClock()
    clock.shift_wall(3_600)
    with in_thread(tmp_path, clock=clock) as live:
        found = examined(cometmq, "-n", live.name_server)
    assert "NTP" in only_fault(found, "clock", BROKER, "ahead of this machine's")


class FullDisk(Disk):
    """A real disk, of which 95 % are used."""

    def usage(self, path: Path) -> Usage:  # noqa: ARG002 - it is one disk
        return Usage(95, 5)


def test_a_broker_stores_nothing_since_its_disk_is_full(cometmq: Run, tmp_path: Path) -> None:
    clock = MovableClock()
    with in_thread(tmp_path, files=FullDisk(), clock=clock) as live:
        clock.advance(61)  # the disk is measured a minute after the start, then each ten seconds
        clock.shift_wall(-61)
        found: dict[str, tuple[str, str]] = {}
        until = time.monotonic() + PATIENCE_S
        while "store" not in found and time.monotonic() < until:  # at the next tick
            found = faults(examined(cometmq, "-n", live.name_server))
    assert set(found) == {"disk", "store"}
    assert "95% full" in found["disk"][0]
    assert "accepts no messages: disk 95 % full" in found["store"][0]
    assert all("free space" in remedy and "fileReservedTime" in remedy for _, remedy in found.values())


def test_a_topic_accepts_no_messages(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path) as live:
        cometmq("topic", "create", "orders", "--perm", "read-only", "-n", live.name_server)
        found = examined(cometmq, "-n", live.name_server)
        lost = examined(cometmq, "-n", live.name_server, "--topic", "order")
    assert "cometmq topic update orders --perm read-write" in only_fault(found, "route", "orders")
    assert "cometmq topic create order" in only_fault(lost, "route", "nearest 'orders'")


def test_a_broker_has_refused_connections(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path, max_connections=2) as live:
        host, _, port = live.broker.rpartition(":")
        with ExitStack() as stack:
            for _ in range(3):
                last = stack.enter_context(socket.create_connection((host, int(port))))
            last.settimeout(PATIENCE_S)
            assert last.recv(1) == b""
        found = examined(cometmq, "-n", live.name_server)
    assert "LimitNOFILE" in only_fault(found, "descriptors", "1 were refused")


def test_a_broker_speaks_only_tls(cometmq: Run, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.certify()
    tls = {
        "tls_server_mode": TlsMode.ENFORCING,
        "tls_server_cert_path": str(made.cert),
        "tls_server_key_path": str(made.key),
        "tls_client_trust_cert_path": str(authority.cert),
    }
    with in_thread(tmp_path / "store", **tls) as live:
        plain = examined(cometmq, "-n", live.name_server)
        trusting = examined(cometmq, "-n", live.name_server, "--tls-ca", str(authority.cert))
    assert "--tls" in only_fault(plain, "name server")
    soon = [one for one in trusting["findings"] if one["check"] == "TLS"]
    assert (trusting["faults"], soon[0]["level"]) == (0, "warning") and "renew" in soon[0]["remedy"]


def test_another_program_has_the_brokers_port(cometmq: Run, tmp_path: Path) -> None:
    with listening() as port:
        found = examined(cometmq, "--config", str(written(tmp_path, listenPort=port)))
    assert "choose another port" in only_fault(found, "ports", f"{port}", "cannot listen")


def test_a_certificate_has_expired(cometmq: Run, tmp_path: Path) -> None:
    made = Authority(tmp_path).certify(ends_in=timedelta(days=-1))
    file = written(tmp_path, tlsServerCertPath=made.cert, tlsServerKeyPath=made.key)
    assert "renew" in only_fault(examined(cometmq, "--config", str(file)), "TLS", str(made.cert), "expired")


def test_the_stores_directory_is_a_file(cometmq: Run, tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    file = written(tmp_path, storePathRootDir=tmp_path / "store" / "data")
    assert "storePathRootDir" in only_fault(examined(cometmq, "--config", str(file)), "disk", "is a file")


def test_a_setting_cannot_be_used(cometmq: Run, tmp_path: Path) -> None:
    found = examined(cometmq, "--config", str(written(tmp_path, flushDiskType="SYNC")))
    assert "docs/settings.md" in only_fault(found, "settings", "flushDiskType", "'SYNC'")


def test_strangers_could_use_the_broker(cometmq: Run, tmp_path: Path) -> None:
    found = examined(cometmq, "--config", str(written(tmp_path, bindAddress="0.0.0.0")))
    assert "authenticationEnabled" in only_fault(found, "access", "bindAddress = 0.0.0.0")


def test_a_process_may_open_few_files(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    command = [*COMMAND, "doctor", "--config", str(written(tmp_path))]
    ran = subprocess.run(
        command, preexec_fn=limit, capture_output=True, text=True, check=False, env=os.environ
    )
    assert ran.returncode == 1, ran
    lines = ran.stdout.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("FAULT"))
    assert "descriptors: ulimit -Hn: a broker of this user may open 256" in lines[at]
    assert lines[at + 1].lstrip().startswith("→ LimitNOFILE=") and lines[-1].startswith("1 fault, ")


def test_a_sound_broker_that_runs_has_no_fault(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path / "store") as live:
        host, _, port = live.broker.rpartition(":")
        file = written(
            tmp_path, listenPort=port, vipChannelEnable="true", namesrvAddr=live.name_server, brokerIP1=host
        )
        ran = cometmq("doctor", "--config", str(file))
    assert ran.code == 0, ran
    assert f"ports: {port}: broker {BROKER} runs and listens there" in ran.out
    assert f"name server: {live.name_server}: it knows 1 broker" in ran.out
    assert [line for line in ran.out.splitlines() if line.startswith("FAULT")] == []
    assert "0 faults, " in ran.out


def test_the_cluster_is_that_of_the_settings_unless_it_is_named(cometmq: Run, tmp_path: Path) -> None:
    nobody = f"{HOST}:{free_port()}"
    file = written(tmp_path, namesrvAddr=nobody)
    assert faults(examined(cometmq, "--config", str(file)))["name server"][0].startswith(nobody)
    with in_thread(tmp_path / "other", access=NameServerAccess()) as live:
        found = examined(cometmq, "--config", str(file), "-n", live.name_server)
    assert "name server" not in faults(found)


def test_before_the_first_start_a_name_server_need_not_know_a_broker(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path / "other", namesrv_addr="") as live:
        file = written(tmp_path, namesrvAddr=live.name_server)
        found = examined(cometmq, "--config", str(file))
    (server,) = [one for one in found["findings"] if one["check"] == "name server"]
    assert (found["faults"], server["level"]) == (0, "warning") and "knows no broker" in server["text"]
