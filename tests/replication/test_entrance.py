"""Who may be a slave: by address, by TLS, by a user's signature."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

import pytest
from tests.certificates import Authority
from tests.kit.raw_peers import is_closed
from tests.replication.conftest import caught_up, name_server, running, slave, until
from tests.store.conftest import new_message

from cometmq.broker.broker import Broker
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import TlsMode
from cometmq.replication import introduction
from cometmq.replication.frames import encode_report
from cometmq.wire.acl import Credentials

HERE: Final = "127.0.0.1"
ELSEWHERE: Final = "10.1.2.3"
LIMIT_MS: Final = 1_500
"""For an introduction, where none comes: a handshake before it has to fit in, on a slow machine, too."""


def of_user(secret: str = "secret of inner") -> dict[str, Any]:
    """Settings of a broker that wants signatures, and signs."""
    credentials = f'{{"accessKey":"inner","secretKey":"{secret}"}}'
    return {"authentication_enabled": True, "inner_client_authentication_credentials": credentials}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def with_tls(authority: Authority) -> dict[str, Any]:
    """Settings of a broker with a certificate, which trusts others of the same authority."""
    made = authority.certify()
    return {
        "tls_server_cert_path": str(made.cert),
        "tls_server_key_path": str(made.key),
        "tls_client_trust_cert_path": str(authority.cert),
    }


async def replicates(root: Path, of_master: dict[str, Any], of_slave: dict[str, Any]) -> None:
    """Check that a slave gets what its master has."""
    async with (
        name_server() as names,
        running(root / "m", names, **of_master) as master,
        slave(root / "s", names, **of_slave) as follower,
    ):
        master.store.append([new_message("T", body=b"a" * 700)] * 10)
        await caught_up(master, follower)
        await until(lambda: bool(master.parts.replication.acks.by_slave))


async def is_refused(
    root: Path,
    of_master: dict[str, Any],
    of_slave: dict[str, Any],
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Check that a slave gets nothing, and that the master's log says why."""
    async with (
        name_server() as names,
        running(root / "m", names, **of_master) as master,
        slave(root / "s", names, **of_slave) as follower,
    ):
        master.store.append([new_message("T", body=b"a" * 700)])
        await until(lambda: why in caplog.text)
        await until(lambda: "replication: master" in " ".join(follower.parts.replication.problems()))
        assert follower.store.written_offset == 0
        assert not master.parts.replication.acks.by_slave


async def test_a_slave_that_signs_by_tls_is_let_in(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    both = of_user() | with_tls
    await replicates(tmp_path, both, both | {"ha_tls_enable": True})


async def test_a_slave_with_another_secret_is_refused(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    of_slave = of_user("a guess") | with_tls | {"ha_tls_enable": True}
    why = "user 'inner' is not known, is disabled, may not do all, or has another secret"
    await is_refused(tmp_path, of_user() | with_tls, of_slave, why, caplog)


async def test_a_slave_without_a_user_is_refused_where_requests_are_signed(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    why = "requests must be signed, and it has no user"
    await is_refused(tmp_path, of_user() | with_tls, with_tls | {"ha_tls_enable": True}, why, caplog)


async def test_a_slave_that_comes_plainly_is_refused_where_requests_are_signed(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    both = of_user() | with_tls
    why = "requests must be signed, and it comes plainly: set haTlsEnable=true"
    await is_refused(tmp_path, both, both, why, caplog)


async def test_a_slave_that_comes_plainly_is_refused_where_tls_is_enforced(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    enforcing = with_tls | {"tls_server_mode": TlsMode.ENFORCING, "tls_enable": False}
    await is_refused(tmp_path, enforcing, {}, "tlsServerMode=enforcing, and it comes plainly", caplog)


async def test_with_tls_enforced_a_slave_uses_it_by_itself(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    enforcing = with_tls | {"tls_server_mode": TlsMode.ENFORCING, "tls_enable": False}
    await replicates(tmp_path, enforcing, enforcing)


async def test_where_tls_is_only_possible_a_slave_may_come_plainly(
    tmp_path: Path, with_tls: dict[str, Any]
) -> None:
    await replicates(tmp_path, with_tls, {})


async def test_an_allowed_address_needs_neither_tls_nor_a_signature(
    tmp_path: Path, with_tls: dict[str, Any]
) -> None:
    of_master = of_user() | with_tls | {"ha_allowed_addresses": f"{HERE},::1"}
    of_master |= {"tls_server_mode": TlsMode.ENFORCING, "tls_enable": False}
    await replicates(tmp_path, of_master, {})


async def test_who_signs_need_not_be_among_the_allowed_addresses(
    tmp_path: Path, with_tls: dict[str, Any]
) -> None:
    both = of_user() | with_tls
    await replicates(tmp_path, both | {"ha_allowed_addresses": ELSEWHERE}, both | {"ha_tls_enable": True})


@pytest.mark.parametrize("by_tls", [False, True])
async def test_where_nobody_signs_only_allowed_addresses_are_let_in(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture, *, by_tls: bool
) -> None:
    of_master = with_tls | {"ha_allowed_addresses": ELSEWHERE}
    why = f"its address is not in haAllowedAddresses ({ELSEWHERE})"
    await is_refused(tmp_path, of_master, with_tls | {"ha_tls_enable": by_tls}, why, caplog)


async def opened(master: Broker, tls: TLS | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert master.parts.replication.port is not None
    context = None if tls is None else tls.context()
    return await asyncio.open_connection(HERE, master.parts.replication.port, ssl=context)


@pytest.mark.parametrize(
    "said",
    [
        introduction.encode_introduction(bytes(16), None),
        introduction.encode_introduction(bytes(16), Credentials("nobody", "s")),
        introduction.encode_introduction(bytes(16), Credentials("inner", "secret of inner")),
        bytes(introduction.HEAD_SIZE),
    ],
    ids=["no user", "unknown", "another challenge", "a report"],
)
async def test_nothing_of_the_log_is_sent_to_who_is_not_let_in(
    tmp_path: Path, authority: Authority, with_tls: dict[str, Any], said: bytes
) -> None:
    async with name_server() as names, running(tmp_path / "m", names, **of_user(), **with_tls) as master:
        master.store.append([new_message("T")])
        reader, writer = await opened(master, TLS(ca_file=authority.cert))
        async with asyncio.timeout(60):
            await reader.readexactly(introduction.GREETING_SIZE)
            writer.write(said + bytes(8))
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("allowed", "heard"), [("", [True, True, True, False, False]), (HERE, [True] * 5)], ids=["", "allowed"]
)
async def test_who_guesses_secrets_is_soon_closed_unheard_but_for_allowed_addresses(
    tmp_path: Path,
    authority: Authority,
    with_tls: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    *,
    allowed: str,
    heard: list[bool],
) -> None:
    own = of_user() | with_tls | {"failed_signatures_max": 2, "ha_allowed_addresses": allowed}
    guess = introduction.encode_introduction(bytes(16), Credentials("inner", "a guess"))
    async with name_server() as names, running(tmp_path / "m", names, **own) as master:

        async def is_heard() -> bool:
            """Guess; return whether the master has greeted."""
            reader, writer = await opened(master, TLS(ca_file=authority.cert))
            try:
                async with asyncio.timeout(60):
                    await reader.readexactly(introduction.GREETING_SIZE)
                    writer.write(guess)
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return False
            finally:
                writer.close()
            return True

        assert [await is_heard() for _ in range(5)] == heard
        assert "user 'inner' is not known, is disabled, may not do all, or has another secret" in caplog.text
        assert f"{HERE} is closed unheard from now on (failedSignaturesMax=2 a minute)" in caplog.text


async def test_who_does_not_introduce_itself_is_cut_off(
    tmp_path: Path, authority: Authority, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    own = of_user() | with_tls | {"ha_housekeeping_interval": LIMIT_MS}
    async with name_server() as names, running(tmp_path / "m", names, **own) as master:
        _, writer = await opened(master, TLS(ca_file=authority.cert))
        await until(lambda: f"it has not introduced itself within {LIMIT_MS} ms" in caplog.text)
        writer.close()


async def test_a_stop_closes_who_is_not_let_in_yet(
    tmp_path: Path, authority: Authority, with_tls: dict[str, Any]
) -> None:
    async with name_server() as names, running(tmp_path / "m", names, **of_user(), **with_tls) as master:
        reader, writer = await opened(master, TLS(ca_file=authority.cert))
        await reader.readexactly(introduction.GREETING_SIZE)
        await master.stop()
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


PATIENT_MS: Final = 3_600_000
"""Longer than any test: whoever goes before has had to give way."""


@pytest.mark.parametrize("limit", ["ha_strangers_max", "ha_connections_max"])
async def test_silent_strangers_give_way_to_each_other_and_to_a_slave(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    both = of_user() | with_tls
    patient: dict[str, Any] = {"ha_housekeeping_interval": PATIENT_MS, "ha_strangers_max": 0, limit: 3}
    async with name_server() as names, running(tmp_path / "m", names, **both, **patient) as master:
        peers = [await opened(master, None) for _ in range(5)]
        assert [await is_closed(reader) for reader, _ in peers[:2]] == [True, True]
        async with slave(tmp_path / "s", names, **both, ha_tls_enable=True) as follower:
            master.store.append([new_message("T", body=b"a" * 700)])
            await caught_up(master, follower)
        assert await is_closed(peers[2][0])
    for _, writer in peers:
        writer.close()
    assert "closed 1 connections at once, the last one of 127.0.0.1:" in caplog.text
    assert "no slave had reported on them" in caplog.text
    assert ("(haStrangersMax)" in caplog.text) == (limit == "ha_strangers_max")
    assert "is refused" not in caplog.text, "who had to give way is logged once in a while"


async def test_refused_connections_are_a_line_of_the_log_now_and_then(
    tmp_path: Path, with_tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with name_server() as names, running(tmp_path / "m", names, **of_user() | with_tls) as master:
        for _ in range(9):
            reader, writer = await opened(master, None)
            writer.write(encode_report(0))
            assert await is_closed(reader)
            writer.close()
    lines = [line for record in caplog.records if "port for slaves" in (line := record.getMessage())]
    assert ["(8 such since the last line)" in line for line in lines] == [False, True]
    assert all("requests must be signed, and it comes plainly" in line for line in lines)


async def test_who_reports_nothing_takes_no_place_of_a_slave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own: dict[str, Any] = {"ha_housekeeping_interval": PATIENT_MS, "ha_slaves_max": 1}
    async with name_server() as names, running(tmp_path / "m", names, **own) as master:
        peers = [await opened(master, None) for _ in range(3)]
        await until(lambda: len(master.parts.replication.acks.by_slave) == 3)
        async with slave(tmp_path / "s", names) as follower:
            master.store.append([new_message("T", body=b"a" * 700)])
            await caught_up(master, follower)
            assert len(master.parts.replication.status().connections) == 1
            reader, writer = await opened(master, None)
            writer.write(encode_report(0))
            assert await is_closed(reader)
        for _, one in (*peers, (reader, writer)):
            one.close()
    assert "1 are connected, which is the limit (haSlavesMax)" in caplog.text


async def test_slaves_do_not_give_way_to_strangers(tmp_path: Path) -> None:
    own: dict[str, Any] = {"ha_housekeeping_interval": PATIENT_MS, "ha_connections_max": 2}
    async with name_server() as names, running(tmp_path / "m", names, **own) as master:
        slaves = [await opened(master, None) for _ in range(2)]
        for _, writer in slaves:
            writer.write(encode_report(0))
        await until(lambda: list(master.parts.replication.acks.by_slave.values()) == [0, 0])
        late = await opened(master, None)
        assert await is_closed(late[0])
        assert len(master.parts.replication.acks.by_slave) == 2
        for _, writer in (*slaves, late):
            writer.close()
