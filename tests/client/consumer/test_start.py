from pathlib import Path

from tests.shop import QUEUE, shop

from cometmq.client.consumer.start import Start
from cometmq.io.clock import ManualClock


async def test_a_start_is_a_place_in_a_queue(tmp_path: Path) -> None:
    clock = ManualClock()
    async with shop(tmp_path, clock=clock) as here:
        await here.send(b"0")
        clock.advance(1_000)
        await here.send(b"1", b"2")
        starts = [Start.FIRST, Start.LAST, Start.at(clock.now_ms()), Start.at(0)]
        assert [await start.offset(here.requests, QUEUE) for start in starts] == [0, 3, 1, 0]
