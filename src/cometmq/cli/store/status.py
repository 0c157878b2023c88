"""``cometmq store status``: the pointers of a store, from its files or from the broker that serves it."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from cometmq.admin.broker_status import BrokerStatus, broker_status
from cometmq.admin.readable import time_text
from cometmq.cli.access import access, access_options
from cometmq.cli.output import (
    json_option,
    print_json,
    print_line,
    print_table,
)
from cometmq.cli.paths import NamedPath
from cometmq.cli.store.options import config_option, finding_fields, load_settings, size_text
from cometmq.errors import SettingsError
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect.status import StoreState, StoreStatus, status_of

MEANINGS: Final = {
    "begin": "the first record that is not removed",
    "written": "all before it is appended",
    "committed": "… is in the page cache",
    "flushed": "… is on the disk",
    "confirmed": "… may be delivered to consumers",
    "dispatched": "… can be read through its queue",
}
STATES: Final = {
    StoreState.CLOSED: "was closed",
    StoreState.NOT_CLOSED: "was not closed, the next start recovers it",
}


@click.command()
@click.argument("path", required=False, type=NamedPath())
@click.option("--broker", "address", metavar="HOST:PORT", help="Ask this broker, of CometMQ or Java.")
@config_option
@access_options
@json_option
def status(path: Path | None, address: str | None, config: Path | None, as_json: bool) -> None:
    """Show how much of a store is written, on the disk, and readable.

    Give the store's directory PATH, which is only read, or the broker that serves it. For a directory it also
    shows whether it was closed, and which process holds it.

    Exit codes: 0 shown; 1 the broker does not answer; 2 PATH is not a store, or its sizes cannot be
    determined.
    """
    if (path is None) == (address is None):
        raise SettingsError("give either the directory of a store or --broker HOST:PORT")
    if path is not None:
        with StoreDirectory(path, load_settings(config, path)) as store:
            _show(status_of(store), as_json=as_json)
    elif address is not None:
        _show_live(asyncio.run(broker_status(address, **access())), as_json=as_json)


def _show(found: StoreStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "path": str(found.root),
                "state": found.state.value,
                "holder": found.holder,
                "pointers": found.pointers._asdict(),
                "at_least": found.at_least,
                "last_time": found.last_time,
                "checkpoint": found.checkpoint and found.checkpoint._asdict(),
                "findings": [finding_fields(finding) for finding in found.findings],
            }
        )
        return
    state = STATES.get(found.state, f"open in process {found.holder}; ask its broker for more: --broker")
    print_line(f"{found.root}: {state}")
    if found.last_time:
        print_line(f"last message stored at {time_text(found.last_time)}")
    _print_pointers(found.pointers._asdict(), found.at_least)
    for finding in found.findings:
        print_line(f"{finding.severity.value}: {finding}")


def _show_live(found: BrokerStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(found._asdict())
        return
    print_line(f"{found.address}: {found.version}, up {found.up}")
    print_line(f"accepts messages: {'no, ' + found.not_writable if found.not_writable else 'yes'}")
    if found.kernels is not None:
        print_line(f"bulk operations: {found.kernels}")
    if found.failed_writes is not None:
        print_line(f"writes to the disk: {found.failed_writes or 'none fail'}")
    if found.insecure:
        print_line(f"warning: {found.insecure}")
    _print_pointers(found.pointers)


def _print_pointers(pointers: Mapping[str, Any], at_least: Iterable[str] = ()) -> None:
    written = pointers["written"]
    rows = []
    for name, meaning in MEANINGS.items():
        offset = pointers[name]
        if offset is None:
            rows.append((name, "not reported", "", meaning))
        else:
            behind = size_text(written - offset) if name != "begin" and offset < written else ""
            if name in at_least:
                offset, behind = f"≥ {offset}", behind and f"≤ {behind}"
            rows.append((name, offset, behind, meaning))
    print_table(("pointer", "offset", "behind", "meaning"), rows)
