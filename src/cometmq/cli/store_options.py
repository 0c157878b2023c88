"""What the store commands have in common: options, settings, a progress bar, fast kernels."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from cometmq import kernels
from cometmq.broker import settings as broker_settings
from cometmq.store.finding import Finding
from cometmq.store.settings import StoreSettings

Progress = Callable[[int, int], None]

SMALL_BYTES: Final = 8 * 1024 * 1024
"""A log of this length takes the plain operations less time than loading the kernels would."""
KERNELS_WAIT_S: Final = 2.0
"""Loading them takes less if they are compiled; if not, work begins without them."""

path_argument = click.argument("path", type=click.Path(path_type=Path))
config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings that the store was written with: TOML, or RocketMQ's own broker.conf.",
)


def load_settings(config: Path | None) -> StoreSettings | None:
    """Read the settings file, if one is given. Raises SettingsError."""
    if config is None:
        return None
    logging.getLogger(broker_settings.__name__).setLevel(logging.ERROR)  # other settings are no matter here
    return broker_settings.load(config).store


@contextmanager
def fast_kernels(log_bytes: int) -> Iterator[None]:
    """Have bulk operations done by the compiled kernels, if the log is long enough to be worth it."""
    if log_bytes <= SMALL_BYTES:
        yield
        return
    loading = kernels.load_in_background()
    try:
        loading.wait(KERNELS_WAIT_S)
        yield
    finally:
        loading.stop()


@contextmanager
def progress_bar(title: str, *, as_json: bool) -> Iterator[Progress | None]:
    """Show how far a long work is, on standard error, if a person watches."""
    if as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - rich takes 50 ms that --json need not pay
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - as above

    columns = (TextColumn(title), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Give a finding as programs get it."""
    return finding._asdict() | {"severity": finding.severity.value, "path": str(finding.path)}


def size_text(size: int) -> str:
    """Give a number of bytes as people read it."""
    value, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
