"""Loggers whose lines nobody else can write: what is foreign in them is escaped.

Peers choose names, remarks and what an exception quotes. A line break among them would begin a line that
nobody has logged, and a terminal would obey what else they hold. Every module has its logger from here, so
that this holds in programs that use the clients, too, whose handlers are their own.
"""

import logging
from typing import Any, Final

from cometmq.escaping import printable

_TRACEBACKS: Final = logging.Formatter()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module, which escapes what it logs."""
    logger = logging.getLogger(name)  # noqa: TID251 the only place
    logger.addFilter(escape)  # a second time changes nothing
    return logger


def escape(record: logging.LogRecord) -> bool:
    """Escape a record's message, and indent its traceback, escaped line by line; return True."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 an argument has no text: the handlers report the call
        return True
    if not message.isprintable():
        record.msg, record.args = printable(message), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = _traceback(record.exc_info)
    return True


class EscapingFormatter(logging.Formatter):
    """Formats the log of a process, in which the loggers of other packages are escaped as well."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        escape(record)
        return super().format(record)


def _traceback(error: Any) -> str:
    lines = _TRACEBACKS.formatException(error).split("\n")
    return "\n".join(f"  {printable(line)}" for line in lines)
