"""What consumers may see, and what becomes of their offsets when a tail of the log is lost."""

import asyncio
from pathlib import Path
from typing import Any

from tests.broker.conftest import Client, GatedDisk, bodies, pull_header, send_header, serving

from cometmq.store import FlushDiskType
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import headers
from cometmq.wire.codes import RequestCode, ResponseCode

SYNC: dict[str, Any] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
SELDOM: dict[str, Any] = {"flush_interval_commit_log": 1_000_000}
TIME_MAX = 2**63 - 1


async def test_under_sync_flush_nobody_is_shown_a_message_that_is_not_on_the_disk(tmp_path: Path) -> None:
    """RocketMQ #8239 (mended by #8240).

    Messages were dispatched, and consumers woken, when they were in the page cache; the sync came later.
    After a loss of power consumers had offsets, and effects, of messages that no longer existed.
    """

    disk = GatedDisk()
    async with serving(tmp_path, SYNC, files=disk) as bench:
        try:
            await bench.send("T", b"on the disk")
            second_at = bench.store.written_offset
            disk.gate.clear()
            consumer = await Client.open(bench.address)
            waiting = consumer.ask_later(RequestCode.PULL_MESSAGE, pull_header("T", 1, wait_ms=20_000))
            sending = bench.ask_later(RequestCode.SEND_MESSAGE_V2, send_header("T", KEYS="k"), b"not yet")
            await consumer.heartbeat("cg", "T")  # answered in turn: the send has been taken by now
            assert bench.store.written_offset > second_at

            pulled = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 0))
            assert bodies(pulled) == [b"on the disk"]
            at_end = await bench.ask(RequestCode.GET_MAX_OFFSET, headers.GetMaxOffsetHeader("T", 0))
            assert at_end.ext_fields["offset"] == "1"
            by_key = headers.QueryMessageHeader("T", "k", 32, 0, TIME_MAX)
            assert (await bench.ask(RequestCode.QUERY_MESSAGE, by_key)).code == ResponseCode.QUERY_NOT_FOUND
            by_place = headers.ViewMessageHeader(second_at)
            assert (await bench.ask(RequestCode.VIEW_MESSAGE_BY_ID, by_place)).code != ResponseCode.SUCCESS
            assert not waiting.done() and not sending.done()

            disk.gate.set()
            assert (await sending).code == ResponseCode.SUCCESS
            assert bodies(await waiting) == [b"not yet"]
            await consumer.connection.close()
        finally:
            disk.gate.set()


async def test_an_offset_beyond_a_lost_tail_moves_back_so_that_what_is_sent_there_next_is_consumed(
    tmp_path: Path,
) -> None:
    """RocketMQ #8239, its second half.

    The consumers' offsets outlived messages that a loss of power took. New messages got the queue offsets of
    the lost ones, which the groups held for consumed: nobody ever got them.
    """

    disk = MemoryDisk()
    async with serving(tmp_path, SELDOM, files=disk) as bench:
        for n in range(10):
            await bench.send("T", b"%d" % n)
            if n == 4:
                await asyncio.wrap_future(bench.store.wait_flushed())
        commit = headers.UpdateConsumerOffsetHeader("cg", "T", 0, 10)
        await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        bench.parts.offsets.save()
        without_power = disk.after_power_loss()
    async with serving(tmp_path, SELDOM, files=without_power) as bench:
        await bench.send("T", b"new")
        ask = headers.QueryConsumerOffsetHeader("cg", "T", 0)
        committed = await bench.ask(RequestCode.QUERY_CONSUMER_OFFSET, ask)
        next_offset = int(committed.ext_fields["offset"])
        pulled = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", next_offset))
        assert (next_offset, bodies(pulled)) == (5, [b"new"])
