"""Nobody else writes lines into a log, be it that of a server or that of a program with a client."""

import ast
import logging
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

import cometmq
from cometmq.logs import EscapingFormatter, escape, get_logger

PACKAGE = Path(cometmq.__file__).parent
FORGED = "pg\n2031-01-01 00:00:00,000 ERROR cometmq.broker: all is lost\x1b[2J\r\u2028\udcff"
ESCAPED = r"pg\n2031-01-01 00:00:00,000 ERROR cometmq.broker: all is lost\x1b[2J\r\u2028\udcff"
CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"log", "_log"}
PLACE = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?([a-zA-Z])")


class Foreign:
    """An argument whose texts are as a peer wishes."""

    def __str__(self) -> str:
        return FORGED

    def __repr__(self) -> str:
        return FORGED


class LogCall(NamedTuple):
    """A call that logs; its text is None if it is not a literal."""

    place: str
    text: str | None


@pytest.fixture
def plain() -> Iterator[tuple[logging.Logger, StringIO]]:
    """A logger of ours in a program with a handler of its own."""
    out = StringIO()
    logger, handler = get_logger("cometmq.test_logs"), logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger, out
    logger.removeHandler(handler)


def raised(error: Exception) -> Exception:
    """Return an error with its traceback."""
    with pytest.raises(type(error)):
        raise error
    return error


def log_calls() -> list[LogCall]:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Attribute(ast.Name(logger), method)) if (
                    logger in LOGGERS and method in CALLS
                ):
                    texts = node.args[1:2] if method == "log" else node.args[:1]
                    match texts:
                        case [ast.Constant(str() as text)]:
                            found.append(LogCall(f"{path}:{node.lineno}", text))
                        case _:
                            found.append(LogCall(f"{path}:{node.lineno}", None))
    return found


def test_every_log_call_writes_one_line_whatever_its_arguments_are(
    plain: tuple[logging.Logger, StringIO],
) -> None:
    logger, out = plain
    calls = log_calls()
    assert len(calls) > 200
    for call in calls:
        text = "%s" if call.text is None else call.text.replace("%%", "")
        logger.warning(text, *(Foreign() if kind in "sr" else 1 for kind in PLACE.findall(text)))
        line = out.getvalue().removesuffix("\n")
        assert line and line.isprintable(), call.place
        out.truncate(out.seek(0))


def test_every_module_has_its_logger_from_here() -> None:
    """Another one, of any name, would not be escaped: a rule of ruff bans it, unless it is told not to."""
    strangers = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(ast.Name("logging"), "getLogger" | "getLoggerClass" | "LoggerAdapter"):
                    strangers.append(path.relative_to(PACKAGE).as_posix())
                case ast.Call(ast.Attribute(ast.Name("logging"), method)) if method in CALLS:
                    strangers.append(path.relative_to(PACKAGE).as_posix())
    assert strangers == ["logs.py"]


def test_what_is_printable_keeps_its_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Programs group records by them."""
    get_logger("cometmq.test_logs.args").warning("lost %s of %d", "é", 2)
    (record,) = caplog.records
    assert (record.msg, record.args) == ("lost %s of %d", ("é", 2))


def test_a_traceback_keeps_its_lines_apart_from_those_of_the_log(
    plain: tuple[logging.Logger, StringIO],
) -> None:
    logger, out = plain
    logger.warning("failed", exc_info=raised(ValueError(FORGED)))
    head, *lines = out.getvalue().rstrip("\n").split("\n")
    assert head == "WARNING failed" and lines[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in lines)
    assert any(r"all is lost\x1b[2J\r" in line for line in lines)


def test_an_argument_without_a_text_does_not_stop_who_logs_it() -> None:
    class Broken:
        def __str__(self) -> str:
            raise LookupError("no text")

    assert escape(logging.makeLogRecord({"msg": "a hook: %s", "args": (Broken(),)}))


def test_the_log_of_a_process_escapes_what_other_packages_log() -> None:
    record = logging.makeLogRecord({"name": "asyncio", "msg": "lost: %s", "args": (FORGED,)})
    assert EscapingFormatter("%(name)s: %(message)s").format(record) == f"asyncio: lost: {ESCAPED}"
    error = raised(ValueError(FORGED))
    failed = logging.makeLogRecord({"msg": "", "exc_info": (type(error), error, error.__traceback__)})
    text = EscapingFormatter("%(message)s").format(failed)
    assert "\n  2031-01-01" in text and "\n2031-01-01" not in text
