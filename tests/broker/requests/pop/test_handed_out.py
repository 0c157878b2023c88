"""After a kill the messages that were popped stay hidden, though their offsets were not saved."""

import asyncio
from pathlib import Path

from tests.broker.conftest import Bench, GatedDisk, serving
from tests.broker.halves import records
from tests.broker.pops import INVISIBLE_MS, ack, change, popped
from tests.kit.pops import REVIVE, begin, pass_time, pop

from cometmq.broker.requests.pop.handed_out import MARGIN_MS, restore_left, restore_offsets
from cometmq.broker.settings import BrokerSettings
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import DeleteGroupHeader


async def restore(bench: Bench, saved_ms: int = 0) -> int:
    parts = bench.parts
    queues = parts.revive.topic, BrokerSettings().pop.revive_queue_num
    return await restore_offsets(bench.store, parts.offsets, parts.groups, *queues, saved_ms)


async def test_offsets_that_were_not_saved_move_behind_what_was_popped(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await begin(bench, *(b"%d" % number for number in range(5)))
        assert [handle.offset for handle in await pop(bench, 2)] == [0, 1]
        assert [handle.offset for handle in await pop(bench, 1)] == [2]
        offsets = bench.parts.offsets
        offsets.commit("g", "T", 0, 0)  # as a save before the pops left it
        assert await restore(bench) == 1
        assert offsets.committed("g", "T", 0) == 3
        assert [handle.offset for handle in await pop(bench)] == [3, 4]
        offsets.delete_group("g")  # there was no save yet
        assert await restore(bench) == 1
        assert offsets.committed("g", "T", 0) == 5
        assert await restore(bench) == 0, "they are where they belong"


async def test_offsets_move_behind_what_was_popped_for_so_short_a_time_that_it_was_never_in_the_timer(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await begin(bench, b"0")
        await pop(bench, invisible_ms=500)
        bench.parts.offsets.commit("g", "T", 0, 0)
        assert await restore(bench) == 1
        assert bench.parts.offsets.committed("g", "T", 0) == 1


async def test_nothing_is_handed_out_to_a_new_group_before_the_disk_knows_it() -> None:
    """Of a group that the broker did not know after a kill it would restore nothing."""
    disk = GatedDisk()
    async with serving(Path("/store"), files=disk) as bench:
        await begin(bench, b"0")
        disk.saves.clear()
        popping = asyncio.create_task(pop(bench))
        await asyncio.wait([popping], timeout=0.05)
        assert not popping.done()
        disk.saves.set()
        assert len(await popping) == 1
        disk = disk.after_kill()
    async with serving(Path("/store"), files=disk) as bench:
        await bench.parts.timed_messages.load()
        assert await restore(bench) == 1


async def test_only_the_time_since_the_last_save_is_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await begin(bench, b"0", b"1")
        await pop(bench, 1)
        bench.clock.advance(60_000)
        bench.parts.offsets.commit("g", "T", 0, 0)  # an operator went back, and that was saved
        assert await restore(bench, bench.clock.now_ms()) == 0
        assert bench.parts.offsets.committed("g", "T", 0) == 0
        await pop(bench, 1)
        bench.parts.offsets.commit("g", "T", 0, 0)
        assert await restore(bench, bench.clock.now_ms() + MARGIN_MS) == 1


async def test_a_check_point_counts_from_the_time_of_its_pop_not_from_when_the_timer_delivers_it(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await begin(bench, b"0")
        await pop(bench, invisible_ms=60_000)
        bench.clock.advance(30_000)
        bench.parts.offsets.commit("g", "T", 0, 0)  # an operator went back, and that was saved
        saved_ms = bench.clock.now_ms()
        await pass_time(bench, 40_000, 5_000)
        queues = range(BrokerSettings().pop.revive_queue_num)
        assert any(records(bench, REVIVE, number) for number in queues), "it was delivered"
        assert await restore(bench, saved_ms) == 0


async def test_nothing_is_restored_of_groups_and_messages_that_are_gone(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await begin(bench, b"0")
        await pop(bench)
        await bench.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader("g", clean_offset=True))
        assert await restore(bench) == 0
        assert bench.parts.offsets.committed("g", "T", 0) is None


async def test_after_a_restart_handles_that_are_used_up_are_known(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for body in (b"a", b"b", b"c", b"d"):
            await bench.send("T", body, 3)
        changed, first, second, held = await popped(bench, queue_id=3)
        assert (await change(bench, changed, INVISIBLE_MS)).code == ResponseCode.SUCCESS
        for message in (first, second):
            assert (await ack(bench, message)).code == ResponseCode.SUCCESS
    async with serving(tmp_path) as again:
        await restore_left(again.store, again.parts.revive.log)
        for message in (changed, first, second):
            assert (await ack(again, message)).code == ResponseCode.NO_MESSAGE
            assert (await change(again, message, INVISIBLE_MS)).code == ResponseCode.NO_MESSAGE
        assert (await ack(again, held)).code == ResponseCode.SUCCESS
        assert (await ack(again, held)).code == ResponseCode.NO_MESSAGE
