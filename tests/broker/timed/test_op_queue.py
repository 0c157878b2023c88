"""What the op queue says: written, read on, and when it is committed how far all is done with."""

import asyncio
from pathlib import Path

from tests.broker.conftest import Bench, GatedDisk, serving
from tests.broker.halves import HALF, OP, prepare, records

from cometmq.broker.timed.half_message import op_messages, put_back
from cometmq.broker.timed.op_queue import OpQueue
from cometmq.format.transaction import TRANSACTION_GROUP

HOST = bytes(8)


def op_queue(bench: Bench) -> OpQueue:
    """Build one over the bench's store that has read nothing yet."""
    return OpQueue(bench.store, bench.parts.offsets, bench.clock, store_host=HOST, size_max=4_096)


async def test_all_that_was_written_before_is_read_once_and_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for number in range(100):
            ((op, _),) = op_messages([2 * number], 0, HOST, 4_096)
            bench.store.append([op])
        ops = op_queue(bench)
        for _ in range(2):
            await ops.read_on()
            assert ops.endings.next_op_offset == 100
            assert [ops.endings.is_ended(offset) for offset in range(200)] == [True, False] * 100
        ops.endings.advance(51)
        assert ops.endings.op_offset == 26


async def test_what_is_written_behind_ops_that_are_not_read_yet_is_known_at_once_and_read_with_them(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        ((op, _),) = op_messages([7], 0, HOST, 4_096)
        bench.store.append([op])
        ops = op_queue(bench)
        ops.end(9)
        ops.write()
        assert [ops.endings.is_ended(offset) for offset in (7, 9)] == [False, True]
        assert ops.endings.next_op_offset == 0
        await ops.read_on()
        assert ops.endings.is_ended(7) and ops.endings.next_op_offset == 2
        assert [one.body for one in records(bench, OP)] == [b"7,", b"9,"]


async def test_what_is_put_back_and_that_it_was_are_one_append(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await prepare(bench)
        ops, (waiting,) = op_queue(bench), records(bench, HALF)
        where = ops.put_back(0, put_back(waiting, is_asked=True))
        back, (op,) = records(bench, HALF)[1], records(bench, OP)
        assert where == (back.physical_offset, 1)
        assert op.physical_offset > back.physical_offset and op.body == b"0,"
        assert (ops.endings.latest(0), ops.endings.is_ended(0), ops.endings.is_ended(1)) == (
            1,
            True,
            False,
        )


async def test_how_far_all_is_done_with_is_committed_once_what_was_put_back_is_on_the_disk() -> None:
    disk = GatedDisk()
    async with serving(Path("/disk/store"), files=disk) as bench:
        await prepare(bench)
        ops, (waiting,) = op_queue(bench), records(bench, HALF)
        disk.gate.clear()
        ops.put_back(0, put_back(waiting, is_asked=True))
        ops.endings.advance(1)
        saving = asyncio.create_task(ops.save())
        await bench.send("T", b"others have many turns meanwhile")
        assert not saving.done()
        assert bench.parts.offsets.committed(TRANSACTION_GROUP, HALF, 0) is None
        disk.gate.set()
        await saving
        assert bench.parts.offsets.committed(TRANSACTION_GROUP, HALF, 0) == 1
        assert bench.parts.offsets.committed(TRANSACTION_GROUP, OP, 0) == 1
