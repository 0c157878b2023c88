"""The options of metrics and health for commands that run servers."""

from typing import Any

import click

from cometmq.cli.access import together
from cometmq.extras import require

metrics_options = together(
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        help="Serve /metrics, /healthz and /readyz on this port; 0 for any free one.",
    ),
    click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address for that."),
)
"""Adds the options to a command, which passes their values to ``take_metrics``."""


def take_metrics(options: dict[str, Any]) -> tuple[str, int] | None:
    """Remove these options from others; return the host and port that they name, None without a port.

    Raises MissingExtra.
    """
    port, host = options.pop("metrics_port"), options.pop("metrics_host")
    if port is not None:
        require("metrics", "--metrics-port")
    return None if port is None else (host, port)
