"""``cometmq store verify``: check every byte of a store."""

import time
from pathlib import Path
from typing import Final

import click

from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.store.options import (
    config_option,
    finding_fields,
    load_settings,
    path_argument,
    progress_bar,
    size_text,
)
from cometmq.store.files.finding import Severity
from cometmq.store.verify import State, Verified
from cometmq.store.verify import verify as verify_store

OTHERS_MAX: Final = 10
"""Most findings other than damage that are shown to people; a killed broker leaves one for each queue."""


@click.command()
@path_argument
@config_option
@json_option
@click.pass_context
def verify(context: click.Context, path: Path, config: Path | None, as_json: bool) -> None:
    """Check the store in directory PATH; nothing is written.

    It checks each record of the CommitLog, ConsumeQueues and index against it and the reverse, checkpoint and
    tables. Fields that no checksum of the format covers, such as a message's hosts and born time, cannot be
    checked.

    Exit codes: 0 the store is sound, or was killed and the next start will recover it; 1 it is damaged;
    2 PATH is not a store, or its sizes cannot be determined.
    """
    begin = time.monotonic()
    with progress_bar("checking", as_json=as_json) as progress:
        verified = verify_store(path, load_settings(config, path), progress=progress)
    if as_json:
        findings = [finding_fields(finding) for finding in verified.findings]
        print_json(
            verified._asdict() | {"state": verified.state.value, "path": str(path), "findings": findings}
        )
    else:
        _print(path, verified, time.monotonic() - begin)
    if verified.state is State.DAMAGED:
        context.exit(1)


def _print(path: Path, verified: Verified, seconds: float) -> None:
    others = 0
    for finding in verified.findings:
        if finding.severity is not Severity.DAMAGE:
            others += 1
            if others > OTHERS_MAX:
                continue
        print_line(f"{finding.severity.value}: {finding}")
    if others > OTHERS_MAX:
        print_line(f"… and {others - OTHERS_MAX} more that are not damage: --json shows all")
    print_line(
        f"{path}: {verified.state.value}; {verified.messages} messages, {size_text(verified.bytes)} of log, "
        f"{verified.queues} queues, {verified.index_entries} index entries, {seconds:.1f} s"
    )
