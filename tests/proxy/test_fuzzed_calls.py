"""Calls that are nearly right end with a line of the log at most, and nothing is kept of them."""

import asyncio
import logging

import pytest
from tests.proxy.conftest import Front
from tests.proxy.fuzzed_calls import CALLS_PER_CONNECTION, send_calls

from cometmq.proxy import messaging_pb2 as pb

CONNECTIONS = 25


async def test_fuzzed_calls_leave_no_traceback_and_nothing_in_memory(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    await front.create_topic("Fuzzed")
    port, server = front.proxy.port, front.proxy._server
    for seed in range(CONNECTIONS):
        await send_calls("127.0.0.1", port, seed, CALLS_PER_CONNECTION)
    answer = await front.client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="Fuzzed")))
    assert answer.status.code == pb.OK
    others = [one for one in server._connections if one.calls.under_way]
    await asyncio.gather(*(one.calls.wait_closed() for one in others))
    assert server._shared.unsent.bytes == 0
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []
