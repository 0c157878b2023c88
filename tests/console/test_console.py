import httpx
import pytest

from cometmq.console.console import Console
from cometmq.console.settings import ConsoleSettings
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


async def test_it_does_not_start_where_strangers_could_use_it() -> None:
    with pytest.raises(SettingsError, match="other machines could reach the console"):
        async with Console(ConsoleSettings("n", host="0.0.0.0"), port=0):
            pass
