from pathlib import Path

import pytest

from cometmq.console.settings import LIMITS, ConsoleSettings
from cometmq.errors import SettingsError


def test_strangers_reach_it_only_if_that_is_wanted() -> None:
    assert ConsoleSettings("n").check() == ConsoleSettings("n", login=True).check() == ""
    assert "speaks HTTP" in ConsoleSettings("n", host="0.0.0.0", login=True).check()
    assert "whoever reaches 0.0.0.0" in ConsoleSettings("n", host="0.0.0.0", insecure=True).check()
    with pytest.raises(SettingsError, match=r"listen on 127\.0\.0\.1, require --login, or pass --insecure"):
        ConsoleSettings("n", host="0.0.0.0").check()


def test_a_store_has_nobody_to_sign_in(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no users to sign in"):
        ConsoleSettings(store=tmp_path, login=True).check()


def test_a_request_must_have_time_to_come() -> None:
    with pytest.raises(SettingsError, match="--request-timeout"):
        ConsoleSettings("n", limits=LIMITS._replace(request_ms_max=0)).check()


def test_other_sites_names_cannot_be_pointed_at_it() -> None:
    assert ConsoleSettings("n").allowed_hosts == frozenset(("localhost", "127.0.0.1", "[::1]"))
    assert ConsoleSettings("n", host="0.0.0.0").allowed_hosts is None
    named = ConsoleSettings("n", host="0.0.0.0", host_names=("mq.example",)).allowed_hosts
    assert named is not None and "mq.example" in named


def test_a_limit_lets_something_through() -> None:
    with pytest.raises(SettingsError, match="--body-bytes-max 0: give at least 1"):
        ConsoleSettings("n", body_bytes_max=0).check()
    with pytest.raises(SettingsError, match="--exports-max 0: give at least 1"):
        ConsoleSettings("n", exports_max=0).check()
