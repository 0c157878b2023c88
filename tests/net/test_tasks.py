import asyncio

import pytest

from cometmq.net.tasks import until_one_ends


async def nothing() -> None:
    pass


async def test_the_others_are_cancelled_when_one_ends() -> None:
    ended: list[str] = []

    async def goes_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    await until_one_ends(goes_on(), nothing())
    assert ended == ["cancelled"]


async def test_what_one_raises_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("as it must")

    with pytest.raises(ValueError, match="as it must"):
        await until_one_ends(asyncio.Event().wait(), fails())  # type: ignore[arg-type]  # its result is not used
