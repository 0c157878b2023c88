"""The output of commands: tables for people, JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
import msgspec

from cometmq.admin.readable import body_text, message_fields, time_text
from cometmq.cli.access import CommandT, access_options
from cometmq.cli.main import EXIT_FAILED
from cometmq.escaping import printable
from cometmq.message import StoredMessage

if TYPE_CHECKING:  # rich takes 50 ms that --json need not pay, and not every command asks brokers
    from rich.table import Table

    from cometmq.admin.tolerant import Trouble

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_namesrv_option = click.option(
    "-n",
    "--namesrv",
    default="127.0.0.1:9876",
    show_default=True,
    envvar="NAMESRV_ADDR",
    show_envvar=True,
    help="Name servers: host:port;host:port.",
)


def namesrv_option(command: CommandT) -> CommandT:
    """Add to a command the option that names servers, and those that say how to reach them."""
    return _namesrv_option(access_options(command))


HEX_SHOWN: Final = 64
"""Bytes shown in hex of a body that is not text."""
HEX_SHORT: Final = 32
"""Bytes shown in hex where a message is one line."""
PIPE_WIDTH: Final = 10_000
"""Columns of a table that is not for a terminal, so that each row stays one line."""


def print_json(value: Any, out: TextIO | None = None) -> None:
    """Print one JSON document on one line."""
    click.echo(msgspec.json.encode(value).decode(), file=out)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table that fits the terminal; into a pipe or a file, each row on one line."""
    from rich.console import Console  # noqa: PLC0415 - rich takes 50 ms that --json need not pay

    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table(columns, rows))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> "Table":
    """Build a table that rich can print."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - as above
    from rich.markup import escape  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above

    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(escape(printable(str(cell))) for cell in row))
    return made


def print_fields(fields: Mapping[str, Any], body: bytes, *, more: str = "") -> None:
    """Print all fields of a message, one per line; ``more`` says how to get the rest of a long body."""
    for name, value in fields.items():
        if name in ("body", "body_hex"):
            continue
        if name in ("born_time", "store_time"):
            text = f"{value} ({time_text(value)})"
        elif name == "properties":
            text = ", ".join(f"{name}={value}" for name, value in value.items())
        else:
            text = " ".join(value) if name == "keys" else str(value)
        print_line(f"{name:>16}  {text}")
    readable = body_text(body)
    if readable is None:
        rest = f" … {len(body) - HEX_SHOWN} bytes more{more}" if len(body) > HEX_SHOWN else ""
        readable = f"{len(body)} bytes: {body[:HEX_SHOWN].hex(' ')}{rest}"
    print_text(f"{'body':>16}  {readable}\n")


def print_message(message: StoredMessage, *, as_json: bool) -> None:
    """Print a message on one line, or on several if its body has line breaks."""
    if as_json:
        print_json(message_fields(message))
    else:
        where = f"{message.queue_id}:{message.queue_offset}"
        tags = printable(message.tags or "-")
        print_text(f"{time_text(message.store_time)} {where} {tags} {_short_body(message.body)}")


def print_line(text: str = "", *, head: str = "", err: bool = False) -> None:
    """Print one line. What is not printable is escaped, but for a ``head``: only that controls a terminal."""
    click.echo(head + printable(text), err=err)


def print_text(text: str) -> None:
    """Print a text as ``print_line``, but with its line breaks and tabs."""
    lines = text.replace("\r\n", "\n").split("\n")
    click.echo("\n".join("\t".join(map(printable, line.split("\t"))) for line in lines))


def exit_if_troubled(troubles: Sequence["Trouble"]) -> None:
    """Print why brokers are missing in what was printed, and exit with code 1 if any are."""
    for one in troubles:
        print_line(f"error: {one.broker_name} at {one.address}: {one.text}", err=True)
    if troubles:
        click.get_current_context().exit(EXIT_FAILED)


def _short_body(body: bytes) -> str:
    text = body_text(body)
    if text is None:
        more = "…" if len(body) > HEX_SHORT else ""
        return f"[{len(body)} bytes: {body[:HEX_SHORT].hex()}{more}]"
    return text
