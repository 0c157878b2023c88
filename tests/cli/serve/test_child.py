import pytest
from tests.cli.conftest import Process

from cometmq.cli.serve.child import child_server
from cometmq.errors import SettingsError


def test_a_child_stops_at_the_end_of_its_input() -> None:
    with Process("proxy", "--port", "0", "--while-input", "--namesrv", "127.0.0.1:1") as process:
        assert process.line().startswith("ready: proxy ")
        assert process.end().code == 0  # it has closed the standard input


async def test_a_child_that_does_not_start_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"the proxy has ended with 2: see above"):
        async with child_server("proxy", "--port", "none", environment={}, on_end=print):
            pass


async def test_the_end_of_a_child_is_told() -> None:
    ends: list[int] = []
    options = ("proxy", "--port", "0", "--namesrv", "127.0.0.1:1")
    async with child_server(*options, environment={}, on_end=ends.append) as ready:
        assert ready["proxy"].startswith("127.0.0.1:")
    assert ends == []  # it was stopped
