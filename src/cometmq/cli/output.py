"""How commands print: tables for people, JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from cometmq.message import StoredMessage

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
namesrv_option = click.option(
    "--namesrv",
    default="127.0.0.1:9876",
    show_default=True,
    envvar="NAMESRV_ADDR",
    help="Name servers: host:port;host:port.",
)


def print_json(value: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(msgspec.json.encode(value).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table that fits the terminal."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - rich takes 50 ms that --json need not pay
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)


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


def time_text(time_ms: int) -> str:
    """Give a time as people read it, in UTC."""
    return (
        datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
