from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.proxy.settings import ProxySettings, load


def test_without_a_file_settings_have_their_defaults() -> None:
    assert load(None, {}) == ProxySettings()


@pytest.mark.parametrize(("name", "text"), [("p.toml", "callsMax = 7"), ("p.conf", "callsMax=7")])
def test_a_file_and_options_set_them(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    settings = load(path, {"tlsServerMode": "disabled"})
    assert settings.calls_max == 7 and settings.tls.tls_server_mode == "disabled"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("callMax=7", "a proxy has no setting callMax; it has tlsServerMode,"),
        ("callsMax=0", "setting callsMax = '0': allowed: a whole number from 1 to 1000000"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.conf"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert said in str(caught.value)
