import json
import re
from pathlib import Path

import pytest
from tests.kit.messages import new_stored

from cometmq.admin.readable import message_fields
from cometmq.cli import output
from cometmq.cli.output import (
    print_fields,
    print_json,
    print_line,
    print_message,
    print_table,
)
from cometmq.message import StoredMessage


def test_a_message_is_printed_as_json_with_all_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(message_fields(new_stored(b"hello")))
    print_json(message_fields(new_stored(b"\x00\xff")))
    text, raw = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(text) == set(StoredMessage.__struct_fields__)
    assert (text["body"], text["keys"], text["tags"]) == ("hello", ["a", "b"], None)
    assert raw["body_hex"] == "00ff" and "body" not in raw


def test_a_line_stays_one_and_does_not_control_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("group \x1b[31mred\r\n\udcff")
    print_line("error: a\nb", err=True)
    assert capsys.readouterr() == ("group \\x1b[31mred\\r\\n\\udcff\n", "error: a\\nb\n")


def test_a_table_keeps_a_row_on_a_line_when_no_terminal_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table(("name", "count"), [(long, 1), ("[bold]\x1b", None)])
    out = capsys.readouterr().out.splitlines()
    head, _rule, first, second = (line.split() for line in out)
    assert (head, first, second) == (["name", "count"], [long, "1"], [r"[bold]\x1b", "None"])


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"a\r\nb", "a\nb"),
        (b"safe\rspoof", r"safe\rspoof"),
        (b"a\tb", "a\tb"),
        (b"\xff" * 40, f"[40 bytes: {'ff' * 32}…]"),
        (b"\xff", "[1 bytes: ff]"),
    ],
)
def test_a_body_is_shown_without_harm(body: bytes, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_message(new_stored(body), as_json=False)
    assert capsys.readouterr().out.removeprefix("1970-01-01T00:00:00.000Z 0:0 - ") == f"{shown}\n"


def test_all_that_a_message_has_is_printed_a_field_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    message = new_stored(b"\xff" * 65, store_time=1)
    print_fields(message_fields(message), message.body, more=": ask")
    out = capsys.readouterr().out
    assert "store_time  1 (1970-01-01T00:00:00.001Z)\n" in out and "keys  a b\n" in out
    assert "65 bytes: ff ff" in out and "… 1 bytes more: ask\n" in out
    print_message(message, as_json=False)
    assert capsys.readouterr().out.startswith("1970-01-01T00:00:00.001Z 0:0 - [65 bytes: ffff")


def test_all_commands_print_by_these_functions() -> None:
    folder = Path(output.__file__).parent
    printing = re.compile(r"\bs?echo\b|(?<![.\w])print\(|sys\.std(out|err)\.write")
    found = [path for path in folder.rglob("*.py") if printing.search(path.read_text())]
    printers = {path.relative_to(folder).as_posix() for path in found}
    assert printers == {"output.py", "completion.py"}  # the latter prints a script of click's
