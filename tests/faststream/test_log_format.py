"""Log lines of a broker."""

import logging

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream._internal.context import ContextRepo

from cometmq.faststream.log_format import LogFormat


def test_columns_are_as_wide_as_the_longest_name() -> None:
    logging.getLogger("faststream.access.rocketmq").handlers.clear()  # of other tests
    ours = LogFormat()
    ours.register_subscriber({"topic": "orders-of-europe", "group": "b"})
    logger = ours.get_logger(context=ContextRepo())
    assert isinstance(logger, logging.Logger) and ours.get_logger(context=ContextRepo()) is logger
    try:
        [handler] = logger.handlers
        record = logging.makeLogRecord(
            {"msg": "Received", "topic": "orders", "group": "b", "message_id": "0123456789ABC"}
        )
        assert logger.filter(record)
        assert " orders           | b    | 0123456789 - Received" in handler.format(record)
        forged = logging.makeLogRecord({"msg": "failed: %s", "args": ("x\n2031 ERROR lost",), "group": "b"})
        assert logger.filter(forged) and r"failed: x\n2031 ERROR lost" in handler.format(forged)
    finally:
        logger.handlers.clear()
        logger.filters.clear()
