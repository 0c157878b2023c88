"""Find the credentials of a client: those that it is given, those of the environment, or those of a file."""

import os
import re
from pathlib import Path
from typing import Final

from cometmq.errors import IllegalType, SettingsError
from cometmq.wire.acl import Credentials

ACCESS_KEY_VARIABLE: Final = "COMETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "COMETMQ_SECRET_KEY"  # noqa: S105 a name, no secret

_KEY: Final = re.compile(r"(accessKey|secretKey)\s*:")
_ENTRY: Final = re.compile(
    r"(?P<key>accessKey|secretKey)\s*:\s+"
    r"(?:'(?P<single>(?:[^']|'')*)'|\"(?P<double>[^\"\\]*)\"|(?P<plain>[^\s'\"#|>&*!%@`{\[].*?))"
    r"(?:\s+#.*)?\s*"
)
"""A line of a file of credentials: YAML, as far as it is one name and one text."""


def in_environment() -> bool:
    """Check whether the environment has a part of credentials, or both."""
    return bool(os.environ.get(ACCESS_KEY_VARIABLE) or os.environ.get(SECRET_KEY_VARIABLE))


def find_credentials(given: Credentials | None) -> Credentials | None:
    """Return the credentials of an argument, else of the environment; None if there are none.

    Raises:
        SettingsError: the environment has only one of the two variables; IllegalType if the argument is no
            Credentials.
    """
    if given is not None:
        if not isinstance(given, Credentials):  # its value may be a secret, and must not appear in an error
            raise IllegalType(f"credentials ({type(given).__name__}): give Credentials(name, secret)")
        return given
    if not in_environment():
        return None
    access_key = os.environ.get(ACCESS_KEY_VARIABLE, "")
    secret_key = os.environ.get(SECRET_KEY_VARIABLE, "")
    if not access_key or not secret_key:
        missing, there = ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
        if access_key:
            missing, there = there, missing
        raise SettingsError(f"environment variable {missing} is not set, but {there} is: set both or none")
    return Credentials(access_key, secret_key)


def read_credentials(path: Path) -> Credentials | None:
    """Return the credentials in a file like RocketMQ's ``tools.yml``; None if it has none.

    The file has a line ``accessKey: NAME`` and a line ``secretKey: SECRET``; other lines have no effect.

    Raises:
        SettingsError: it cannot be read, has only one of the two, or one is not on a line by itself.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"file of credentials {path}: {reason}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if _KEY.match(line) is None:
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None:  # the line may hold a secret, so it is not quoted
            raise SettingsError(f"file of credentials {path}, line {number}: write it as name: 'text'")
        text = entry["single"].replace("''", "'") if entry["single"] is not None else entry["double"]
        found[entry["key"]] = entry["plain"] if text is None else text
    if not found:
        return None
    for key in ("accessKey", "secretKey"):
        if not found.get(key):
            raise SettingsError(f"file of credentials {path}: it has no {key}: write both, or none")
    return Credentials(found["accessKey"], found["secretKey"])
