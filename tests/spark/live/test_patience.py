import pytest

from cometmq.errors import NetworkError, NoRoute, RemoteError, SettingsError
from cometmq.spark.live.patience import is_retriable, patiently
from cometmq.wire.codes import ResponseCode


async def test_asks_again_until_there_is_an_answer() -> None:
    answers = iter([NetworkError("away"), NoRoute("away"), RemoteError(ResponseCode.SYSTEM_BUSY, ""), None])
    retries = []

    async def ask() -> str:
        if error := next(answers):
            raise error
        return "here"

    assert await patiently("a", 60, ask, before_retry=lambda: retries.append(1)) == "here"
    assert len(retries) == 3


async def test_gives_up_in_the_end_and_says_on_whom() -> None:
    async def ask() -> str:
        raise NetworkError("no connection")

    with pytest.raises(NetworkError, match=r"broker b: no success in 0\.2 s: no connection"):
        await patiently("broker b", 0.2, ask)


async def test_does_not_ask_again_for_what_no_broker_would_do() -> None:
    async def ask() -> str:
        raise RemoteError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "")

    with pytest.raises(RemoteError):
        await patiently("broker b", 60, ask)
    assert not is_retriable(SettingsError("x"))
