from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.net.settings_file import read_file


def test_lines_and_toml_have_the_same_names(tmp_path: Path) -> None:
    lines, toml = tmp_path / "a.conf", tmp_path / "a.toml"
    lines.write_text("listenPort = 1\ntraceOn=false\n")
    toml.write_text("listenPort = 1\ntraceOn = false\n")
    assert read_file(lines) == {"listenPort": "1", "traceOn": "false"}
    assert read_file(toml) == {"listenPort": 1, "traceOn": False}


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("a.conf", "brokerName=\\u12", "not key=value"),
        ("a.toml", "brokerName =", "not TOML"),
        ("a.toml", "[broker]\nbrokerName = 'x'", "top level"),
        ("a.toml", "brokerName = " + "[" * 5_000 + "]" * 5_000, r"a\.toml is nested too deep"),
        ("a.toml", "brokerName = " + "{a=" * 5_000, r"a\.toml is nested too deep"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(tmp_path: Path, file: str, text: str, says: str) -> None:
    path = tmp_path / file
    path.write_text(text)
    with pytest.raises(SettingsError, match=says):
        read_file(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_file(tmp_path / "none.conf")
