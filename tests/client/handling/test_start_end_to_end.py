"""Where a group begins, at a broker of whatever make."""

from tests.shop import shop_at

from cometmq.client.handling.start import Start


async def test_retries_are_always_read_from_the_first(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        consumer = here.consumer()
        consumer.subscribe(topic, print)
        async with consumer:
            queue = here.queue._replace(topic=f"%RETRY%{topic}")
            for start in (Start.FIRST, Start.LAST, Start.at(0)):
                assert await start.offset(here.requests, queue) == 0
