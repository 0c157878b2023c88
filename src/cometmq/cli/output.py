"""How commands print: tables for people, JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from cometmq.message import StoredMessage

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
namesrv_option = click.option(
    "-n",
    "--namesrv",
    default="127.0.0.1:9876",
    show_default=True,
    envvar="NAMESRV_ADDR",
    show_envvar=True,
    help="Name servers: host:port;host:port.",
)

EPOCH: Final = datetime.fromtimestamp(0, UTC)
PIPE_WIDTH: Final = 10_000
"""Columns of a table that no person looks at: a line of it must stay a line."""


def print_json(value: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(msgspec.json.encode(value).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table that fits the terminal; into a pipe or a file, each row on one line."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich takes 50 ms that --json need not pay
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.markup import escape  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above

    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(cell))) for cell in row))
    console.print(table)


def message_fields(message: StoredMessage) -> Mapping[str, Any]:
    """Give a message as programs get it: a body that is not text is in hex under ``body_hex``."""
    values = {name: getattr(message, name) for name in StoredMessage.__slots__ if name != "body"}
    text = body_text(message.body)
    return values | ({"body_hex": message.body.hex()} if text is None else {"body": text})


def body_text(body: bytes) -> str | None:
    """Give a body as text, or None if it is none."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\r\n\t" for char in text) else None


def printable(text: str) -> str:
    """Write out what could play tricks on a terminal: what others sent is shown, not obeyed."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]


def time_text(time_ms: int) -> str:
    """Give a time as people read it, in UTC; one that no calendar has stays a number."""
    try:
        time = EPOCH + timedelta(milliseconds=time_ms)  # exact, unlike seconds as a float
    except OverflowError:
        return str(time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
