"""The broker as it is declared; test_services.py has it run."""

import logging
import ssl

import pytest
from faststream._internal.context import ContextRepo
from faststream.exceptions import SetupError
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256

from cometmq import Credentials
from cometmq.errors import NetworkError, SettingsError
from cometmq.faststream.broker import LogFormat, RocketMQBroker


def test_credentials_and_tls_may_be_told_in_faststream_s_words() -> None:
    broker = RocketMQBroker(security=SASLPlaintext("shop", "secret", use_ssl=True))
    assert broker._connection_kwargs["credentials"] == Credentials("shop", "secret")
    assert broker._connection_kwargs["tls"] is True
    own = RocketMQBroker(credentials=Credentials("a", "b"), security=BaseSecurity(use_ssl=True), tls=False)
    assert own._connection_kwargs["credentials"] == Credentials("a", "b")
    assert own._connection_kwargs["tls"] is False
    assert RocketMQBroker()._connection_kwargs["tls"] is None


def test_what_rocketmq_does_not_have_is_refused_with_the_remedy() -> None:
    with pytest.raises(SetupError, match="no SASLScram256: use SASLPlaintext"):
        RocketMQBroker(security=SASLScram256("shop", "secret"))
    with pytest.raises(SetupError, match=r"give tls=TLS\(ca_file=...\)"):
        RocketMQBroker(security=BaseSecurity(ssl_context=ssl.create_default_context()))
    with pytest.raises(TypeError, match="a broker has no option 'url'"):
        RocketMQBroker(url="127.0.0.1:9876")  # type: ignore[call-arg] # that is the fault


async def test_a_start_without_a_name_server_fails_in_time() -> None:
    broker = RocketMQBroker("127.0.0.1:1", group="billing", logger=None, start_timeout=0.01)

    @broker.subscriber("orders")
    async def handle(_: str) -> None:
        pass

    async with broker:
        assert not await broker.ping(0.01)
        with pytest.raises(NetworkError):
            await broker.start()


async def test_an_address_that_is_none_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        await RocketMQBroker("nowhere", logger=None).connect()


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
