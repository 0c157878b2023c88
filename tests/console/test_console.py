import asyncio

import httpx
import pytest

from cometmq.console.console import Console
from cometmq.console.settings import ConnectionLimits, ConsoleSettings
from cometmq.errors import SettingsError
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_it_serves_until_it_is_stopped(broker: EmbeddedBroker) -> None:
    async with Console(ConsoleSettings(broker.name_server), port=0) as console:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://{console.address}/topics?system=1")
        assert answer.status_code == 200 and "TBW102" in answer.text
        with pytest.raises(SettingsError, match="console: cannot listen on"):
            async with Console(ConsoleSettings(broker.name_server), port=console.port):
                pass
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{console.address}/healthz")


async def test_silent_connections_keep_nobody_out(broker: EmbeddedBroker) -> None:
    limits = ConnectionLimits(connections_max=3, waiting_max=0, request_ms_max=3_600_000)
    async with Console(ConsoleSettings(broker.name_server, limits=limits), port=0) as console:
        silent = [await asyncio.open_connection("127.0.0.1", console.port) for _ in range(5)]
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://{console.address}/healthz")).status_code == 200
        for _, writer in silent:
            writer.close()


async def test_it_does_not_start_where_strangers_could_use_it() -> None:
    with pytest.raises(SettingsError, match="other machines could reach the console"):
        async with Console(ConsoleSettings("n", host="0.0.0.0"), port=0):
            pass
