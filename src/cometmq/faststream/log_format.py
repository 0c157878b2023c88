"""How a broker's log lines look: FastStream's way, with topic and group."""

from typing import Any, Final

from faststream._internal.basic_types import LoggerProto
from faststream._internal.context import ContextRepo
from faststream._internal.logger import DefaultLoggerStorage
from faststream._internal.logger.logging import get_broker_logger

from cometmq.logs import escape

SHOWN_OF_AN_ID: Final = 10
SHORT_ID: Final = f"%(message_id)-{SHOWN_OF_AN_ID}s"


class LogFormat(DefaultLoggerStorage):
    """The format of the lines; the columns of topics and groups are as wide as the longest name."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 4, "group": 4}

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Widen the columns for a subscriber."""
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        """Return the logger; it is created once."""
        if (logger := self._get_logger_ref()) is None:
            columns = " | ".join(f"%({name})-{width}s" for name, width in self._widths.items())
            logger = get_broker_logger(
                name="rocketmq",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=SHOWN_OF_AN_ID,
                fmt=f"%(asctime)s %(levelname)-8s - {columns} | {SHORT_ID} - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            logger.addFilter(escape)
            self._logger_ref.add(logger)
        return logger
