"""The common parts of the store commands: options, settings, a progress bar."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from cometmq.cli.output import print_line
from cometmq.cli.paths import NamedPath
from cometmq.errors import SettingsError
from cometmq.io.clock import Clock, SystemClock
from cometmq.net.settings_file import read_file
from cometmq.store.files.finding import Finding
from cometmq.store.progress import Progress, ProgressLines
from cometmq.store.settings import StoreSettings, for_store, from_properties

path_argument = click.argument("path", type=NamedPath())
config_option = click.option(
    "--config",
    metavar="FILE",
    type=NamedPath(dir_okay=False),
    help="Settings that the store was written with: TOML, or RocketMQ's own broker.conf.",
)


def load_settings(config: Path | None, *stores: Path) -> StoreSettings | None:
    """Read the settings file of some stores, if given. Raises SettingsError if it is not that of all."""
    if config is None:
        return None
    values = read_file(config)
    for store in stores:
        values = for_store(values, store)
    settings = from_properties(values)
    if len(stores) > 1 and settings.names_log:
        raise SettingsError(
            f"{config}: names the CommitLog of one store, and {len(stores)} are given: give them one by one"
        )
    return settings


@contextmanager
def progress_bar(title: str, *, as_json: bool, clock: Clock | None = None) -> Iterator[Progress]:
    """Show the progress of long work on standard error: as a bar on a terminal, else as lines."""
    if as_json or not sys.stderr.isatty():
        yield ProgressLines(title, partial(print_line, err=True), clock or SystemClock())
        return
    from rich import progress  # noqa: PLC0415 - as above
    from rich.console import Console  # noqa: PLC0415 - rich takes 50 ms that --json need not pay

    columns = (
        progress.TextColumn(title),
        progress.BarColumn(),
        progress.DownloadColumn(binary_units=True),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Return the fields of a finding for JSON."""
    return finding._asdict() | {"severity": finding.severity.value, "path": str(finding.path)}


def size_text(size: int) -> str:
    """Format a number of bytes with a unit."""
    value, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
