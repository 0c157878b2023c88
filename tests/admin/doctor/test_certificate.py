from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.live import serving

from cometmq.admin.doctor.certificate import examine_file, judge_expiry, peer_expiry
from cometmq.admin.doctor.findings import Level
from cometmq.errors import SettingsError
from cometmq.net.address import free_port
from cometmq.net.tls.client import TLS

HOST = "127.0.0.1"


def test_a_certificate_that_lasts_and_is_for_the_host_is_fine(tmp_path: Path) -> None:
    made = Authority(tmp_path).certify(ends_in=timedelta(days=90))
    (found,) = examine_file(made.cert, made.key, "", HOST)
    assert found.level is Level.OK and "expires in 89 days" in found.text


def test_one_that_expires_soon_or_is_for_others_is_a_warning(tmp_path: Path) -> None:
    made = Authority(tmp_path).certify("example.org", ends_in=timedelta(days=3))
    soon, other = examine_file(made.cert, made.key, "", HOST)
    assert (soon.level, other.level) == (Level.WARNING, Level.WARNING)
    assert "renew" in soon.remedy and "subjectAltName" in other.remedy


def test_one_with_another_key_or_password_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made, other = authority.certify(password="secret"), authority.certify()
    assert examine_file(made.cert, made.key, "secret", HOST)
    with pytest.raises(SettingsError, match="password"):
        examine_file(made.cert, made.key, "", HOST)
    with pytest.raises(SettingsError, match="another certificate"):
        examine_file(made.cert, other.key, "", HOST)


async def test_what_a_server_shows_is_judged_as_its_clients_see_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.certify(ends_in=timedelta(days=60))
    tls: dict[str, Any] = {"tls_server_cert_path": str(made.cert), "tls_server_key_path": str(made.key)}
    async with serving(tmp_path / "store", **tls) as live:
        seen = await peer_expiry(live.broker, TLS(ca_file=authority.cert))
        unknown = await peer_expiry(live.broker, TLS())
        unchecked = await peer_expiry(live.broker, TLS(verify=False))
    assert "59 days" in judge_expiry("b", seen).text
    assert "not accepted" in str(unknown) and "not checked" in str(unchecked)
    assert judge_expiry("b", unknown).level is Level.WARNING


async def test_a_server_that_is_not_there_has_no_certificate() -> None:
    assert "failed" in str(await peer_expiry(f"{HOST}:{free_port()}", TLS()))
