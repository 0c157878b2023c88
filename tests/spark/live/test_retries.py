import asyncio

import pytest

from cometmq.errors import (
    CometMQError,
    NetworkError,
    NoRoute,
    RemoteError,
    SettingsError,
    TLSError,
    WrongProtocol,
    WrongServer,
)
from cometmq.spark.live import retries
from cometmq.spark.live.retries import UNDER_WAY_MAX, ask_each, with_retries
from cometmq.wire.codes import ResponseCode


async def test_asks_again_until_there_is_an_answer() -> None:
    answers = iter([NetworkError("away"), NoRoute("away"), RemoteError(ResponseCode.SYSTEM_BUSY, ""), None])
    tries = []

    async def ask() -> str:
        if error := next(answers):
            raise error
        return "here"

    assert await with_retries("a", 60, ask, before_retry=lambda: tries.append(1)) == "here"
    assert len(tries) == 3


async def test_gives_up_in_the_end_and_says_on_whom() -> None:
    async def ask() -> str:
        raise NetworkError("no connection")

    with pytest.raises(NetworkError, match=r"broker b: no success in 0\.2 s: no connection"):
        await with_retries("broker b", 0.2, ask)


@pytest.mark.parametrize(
    "refusal",
    [
        RemoteError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "at 7"),
        RemoteError(ResponseCode.NO_PERMISSION, "no"),
        RemoteError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group"),
        WrongServer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "a broker"),
        WrongProtocol("HTTP"),
        TLSError("its certificate is not accepted"),
        SettingsError("x"),
    ],
)
async def test_does_not_ask_again_for_what_no_broker_would_do(refusal: CometMQError) -> None:
    tries = []

    async def ask() -> str:
        tries.append(1)
        raise refusal

    with pytest.raises(type(refusal)) as raised:
        await with_retries("broker b", 60, ask)
    assert len(tries) == 1
    assert str(raised.value) == (
        f"code {refusal.code}: broker b: {refusal.remark}" if type(refusal) is RemoteError else str(refusal)
    )


async def test_gives_up_soon_where_nothing_is_known_of_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> str:
        raise RemoteError(ResponseCode.SYSTEM_ERROR, "oh")

    monkeypatch.setattr(retries, "DOUBTFUL_S", 0.2)
    with pytest.raises(NetworkError, match=r"broker b: no success in 0\.2 s: code 1: oh"):
        await with_retries("broker b", 600, ask)


async def test_all_are_answered() -> None:
    async def ask(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    numbers = range(1_000)
    answers = await ask_each(ask, numbers)
    assert list(answers.items()) == [(number, 2 * number) for number in numbers]
    assert await ask_each(ask, []) == {}


async def test_one_failure_ends_all_the_others_of_which_so_many_are_under_way() -> None:
    ended = []

    async def ask(number: int) -> None:
        try:
            if number == 3:
                raise NoRoute("3")
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(NoRoute, match="3"):
        await ask_each(ask, range(1_000))
    assert sorted(ended) == list(range(UNDER_WAY_MAX))
