import asyncio

from cometmq.client.waiting import wait_within


def test_it_waits_for_the_event_or_the_time() -> None:
    async def main() -> None:
        event = asyncio.Event()
        await wait_within(event, 0)
        waiting = asyncio.create_task(wait_within(event, 3_600))
        event.set()
        await waiting

    asyncio.run(main())


def test_a_cancellation_that_comes_with_the_event_is_not_lost() -> None:
    async def main() -> None:
        event = asyncio.Event()
        waiting = asyncio.create_task(wait_within(event, 3_600))
        await asyncio.sleep(0)
        event.set()
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()

    asyncio.run(main())
