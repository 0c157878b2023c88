"""Read the settings files of servers: TOML, or lines ``key=value`` as those of RocketMQ."""

import tomllib
from pathlib import Path
from typing import Any

from cometmq.errors import FormatError, SettingsError
from cometmq.wire import settings_text


def read_file(path: Path) -> dict[str, Any]:
    """Read the names and values of a settings file. Raises SettingsError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} cannot be read: {error}") from None
    return _toml(path, text) if path.suffix == ".toml" else _properties(path, text)


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"settings file {path} is not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(
            f"settings file {path} is nested too deep: put settings at the top level"
        ) from None
    for name, value in values.items():
        if isinstance(value, dict):
            raise SettingsError(f"settings file {path}: table [{name}]: put settings at the top level")
    return values


def _properties(path: Path, text: str) -> dict[str, Any]:
    try:
        return dict(settings_text.decode(text.encode()))
    except FormatError as error:
        raise SettingsError(f"settings file {path} is not key=value lines: {error}") from None
