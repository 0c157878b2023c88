import asyncio
from typing import Any

from cometmq.broker.periodic import Periodic


async def test_an_action_is_called_again_and_again_until_the_stop() -> None:
    async def main() -> int:
        done = asyncio.Event()
        calls = 0

        def act() -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                done.set()

        periodic = Periodic()
        periodic.every(1, act)
        await done.wait()
        periodic.stop()
        seen = calls
        await asyncio.wait_for(asyncio.shield(asyncio.to_thread(int)), 1)
        return calls - seen

    assert await main() == 0


async def test_an_action_says_when_it_has_to_be_called_again() -> None:
    async def main() -> int:
        done = asyncio.Event()
        waits_ms = [1, 1, 1, 3_600_000]

        def act() -> int:
            if len(waits_ms) == 1:
                done.set()
            return waits_ms.pop(0)

        periodic = Periodic()
        periodic.every(1, act)
        await asyncio.wait_for(done.wait(), 10)
        periodic.stop()
        return len(waits_ms)

    assert await main() == 0


async def test_an_action_may_stop_everything() -> None:
    async def main() -> int:
        calls = 0

        def act() -> int:
            nonlocal calls
            calls += 1
            periodic.stop()
            return 0

        periodic = Periodic()
        periodic.every(0, act)
        for _ in range(10):
            await asyncio.sleep(0)
        return calls

    assert await main() == 1


async def test_an_action_that_raises_is_reported_and_called_again() -> None:
    async def main() -> list[dict[str, Any]]:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        again = asyncio.Event()

        def act() -> None:
            if reported:
                again.set()
            raise ValueError("always")

        periodic = Periodic()
        periodic.every(1, act)
        await again.wait()
        periodic.stop()
        return reported

    assert "always" in str((await main())[0]["exception"])
