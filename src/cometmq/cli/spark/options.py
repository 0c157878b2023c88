"""The common parts of the Spark commands: options, the session, and a progress bar."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from cometmq.cli.output import print_line
from cometmq.cli.paths import NamedPath
from cometmq.io.clock import Clock, SystemClock
from cometmq.store.progress import elapsed_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark's master URL: local[2], spark://HOST:7077, yarn, k8s://…",
)

broker_option = click.option(
    "--broker", help="Name of the broker that wrote the store, for the column broker: no file contains it."
)

stores_argument = click.argument("stores", metavar="PATH...", nargs=-1, required=True, type=NamedPath())

EVERY_MS: Final = 2_000
UNCHANGED_MS: Final = 60_000
"""How long nothing may change before a line shows that the job still runs."""

TaskProgress = Callable[[str, int, int], None]
"""Called with the current step, the number of its finished tasks, and the number of all its tasks."""


def start_spark(master: str) -> "SparkSession":
    """Start a Spark session, which ends with this process. Raises MissingExtra if Spark is not installed."""
    from cometmq.spark import session  # noqa: PLC0415 - an extra, and it takes half a second

    return session(master)


@contextmanager
def task_bar(*, as_json: bool, clock: Clock | None = None) -> Iterator[TaskProgress]:
    """Show the progress of a job on standard error: as a bar on a terminal, else as lines."""
    if as_json or not sys.stderr.isatty():
        yield TaskLines(partial(print_line, err=True), clock or SystemClock())
        return
    from rich import progress  # noqa: PLC0415 - rich takes 50 ms that --json need not pay
    from rich.console import Console  # noqa: PLC0415 - as above

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda step, done, tasks: bar.update(task, description=step, completed=done, total=tasks)


class TaskLines:
    """A printer of progress as lines, for logs and pipes: ``scan: 3 of 12 tasks, 00:42``.

    It prints a line when something has changed, at most every ``EVERY_MS``, and else every ``UNCHANGED_MS``.
    """

    def __init__(self, print_line: Callable[[str], object], clock: Clock) -> None:
        self._print = print_line
        self._clock = clock
        self._begin_ms = self._printed_ms = clock.monotonic_ms()
        self._printed: tuple[str, int, int] | None = None

    def __call__(self, step: str, done: int, tasks: int) -> None:
        """Print the progress, if it is time for a line."""
        now_ms = self._clock.monotonic_ms()
        wait_ms = UNCHANGED_MS if self._printed == (step, done, tasks) else EVERY_MS
        if now_ms - self._printed_ms >= wait_ms:
            self._printed_ms, self._printed = now_ms, (step, done, tasks)
            self._print(f"{step}: {done} of {tasks} tasks, {elapsed_text(now_ms - self._begin_ms)}")
