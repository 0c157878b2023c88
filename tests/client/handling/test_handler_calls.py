"""Calls of handlers: whole bodies, traces, and threads for plain functions."""

import threading

import pytest
from tests.client.pops import record

from cometmq.client.handling.consume_trace import ConsumeTracer
from cometmq.client.handling.handler_calls import HandlerCalls
from cometmq.client.handling.subscription import Subscription
from cometmq.errors import UndecodableBody
from cometmq.format.compression import compress
from cometmq.format.stored import message_as_stored
from cometmq.format.sys_flag import COMPRESSED, CompressionType, compressed_with
from cometmq.io.clock import ManualClock
from cometmq.message import Message, StoredMessage

ZLIB = CompressionType.ZLIB


async def test_a_handler_gets_whole_bodies_in_a_thread_and_is_traced() -> None:
    sent: list[Message] = []
    handled: list[tuple[bytes, str]] = []

    async def send(message: Message) -> None:
        sent.append(message)

    def handle(message: StoredMessage) -> None:
        handled.append((message.body, threading.current_thread().name))

    calls = HandlerCalls({}, 1, ManualClock())
    calls.tracer = ConsumeTracer(send, "readers", ManualClock())
    packed = record(0, compress(b"body", ZLIB), sys_flag=compressed_with(0, ZLIB))
    await calls.handle(Subscription("Orders", handle), [message_as_stored(packed)])
    await calls.tracer.close()
    calls.shutdown()
    assert handled == [(b"body", "cometmq-handler_0")]
    assert len(sent) == 1


async def test_a_body_that_cannot_be_decompressed_counts_as_a_failure() -> None:
    calls = HandlerCalls({}, 1, ManualClock())
    bad = message_as_stored(record(0, b"no zlib stream", sys_flag=COMPRESSED))
    with pytest.raises(UndecodableBody):
        await calls.handle(Subscription("Orders", print), [bad])
    calls.shutdown()
