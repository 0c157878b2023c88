"""The options of TLS for commands that run servers."""

from pathlib import Path
from typing import Any, Final

import click

from cometmq.cli.access import together
from cometmq.cli.paths import NamedPath

_FILE: Final = NamedPath(dir_okay=False)
server_tls_options = together(
    click.option("--tls-cert", type=_FILE, help="Certificate (PEM) with those that sign it …"),
    click.option("--tls-key", type=_FILE, help="… and its key (PEM), if that is in another file."),
    click.option(
        "--tls-mode",
        type=click.Choice(["disabled", "permissive", "enforcing"]),
        help="No TLS, plain connections and TLS, or TLS only.  [default: permissive with a certificate]",
    ),
    click.option("--tls-config", type=_FILE, help="More settings of TLS: RocketMQ's tls.properties."),
)
"""Adds the options of TLS to a command, which passes their values to ``tls_settings``."""


def tls_settings(
    *, tls_config: Path | None, tls_mode: str | None, tls_cert: Path | None, tls_key: Path | None
) -> dict[str, Any]:
    """Return the given settings of TLS by name; options override the file. Raises SettingsError."""
    from cometmq.net.tls.settings import read_tls_properties  # noqa: PLC0415 - the help must not wait for it

    values = {} if tls_config is None else read_tls_properties(tls_config)
    given = {"tlsServerMode": tls_mode, "tlsServerCertPath": tls_cert, "tlsServerKeyPath": tls_key}
    return values | {name: str(value) for name, value in given.items() if value is not None}
