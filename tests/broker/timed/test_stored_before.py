"""Over kills at any moment popped messages come back once: what is stored is recognised."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.conftest import Bench, serving
from tests.broker.halves import records
from tests.kit import pops

from cometmq.broker.timed import stored_before
from cometmq.format.pop.names import REVIVE_GROUP
from cometmq.store.append import Appended, NewMessage, once_more
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import ChangeInvisibleHeader

ROOT = Path("/store")
AGAIN_MS = pops.INVISIBLE_MS + 1_500


@asynccontextmanager
async def living(disk: MemoryDisk, passed_ms: int = 0) -> AsyncIterator[Bench]:
    """Serve what a kill has left, some time after the first broker began."""
    async with serving(ROOT, files=disk, passed_ms=passed_ms, **pops.quiet(revive_queue_num=1)) as bench:
        await bench.parts.timed_messages.load()
        yield bench


async def send(bench: Bench, *texts: bytes) -> None:
    for text in texts:
        answer = await bench.send("T", text, UNIQ_KEY=text.decode())
        assert answer.code == ResponseCode.SUCCESS, answer


async def killed_behind_the_first(
    bench: Bench, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> MemoryDisk:
    """Pop; return the disk as a kill leaves it when one of the messages is in the retry topic."""
    dead, append = list[MemoryDisk](), bench.store.append

    def append_in_two(messages: Sequence[NewMessage]) -> list[Appended]:
        if messages[0].topic != pops.RETRY:
            return append(messages)
        first = append(messages[:1])
        dead.append(disk.after_kill())
        return first + append(messages[1:])

    monkeypatch.setattr(bench.store, "append", append_in_two)
    await pops.pop(bench)
    await pops.pass_time(bench, AGAIN_MS)
    return dead[0]


async def test_what_had_come_back_before_a_kill_does_not_come_back_again() -> None:
    disk = MemoryDisk()
    async with living(disk) as bench:
        await send(bench, b"0", b"1")
        await pops.pop(bench)
        await pops.pass_time(bench, AGAIN_MS)
        assert pops.bodies(bench) == [b"0", b"1"]
        disk = disk.after_kill()  # neither the timer nor the revive has saved anything
    async with living(disk, AGAIN_MS) as bench:
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == [b"0", b"1"]
        assert bench.parts.offsets.committed(REVIVE_GROUP, pops.REVIVE, 0) == 1, "its check point came twice"
        assert bench.parts.revive._before is None, "it is over: nothing is compared any more"


async def test_what_was_not_stored_before_a_kill_comes_back_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    async with living(disk) as bench:
        await send(bench, b"0", b"1", b"2")
        dead = await killed_behind_the_first(bench, disk, monkeypatch)
    async with living(dead, AGAIN_MS) as bench:
        assert pops.bodies(bench) == [b"0"]
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == [b"0", b"1", b"2"]


async def test_two_messages_of_one_unique_key_are_not_mistaken_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RocketMQ's producers leave a message the key that it has: so a program that sends it twice."""
    disk = MemoryDisk()
    async with living(disk) as bench:
        for body in (b"0", b"1"):
            await bench.send("T", body, UNIQ_KEY="k")
        dead = await killed_behind_the_first(bench, disk, monkeypatch)
    async with living(dead, AGAIN_MS) as bench:
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == [b"0", b"1"]


async def test_what_was_acknowledged_stays_so_though_its_check_point_is_delivered_again() -> None:
    """A timer that is killed while it saves its slots may deliver one again, and later ones not."""
    disk = MemoryDisk()
    async with living(disk) as bench:
        await send(bench, b"0")
        (handle,) = await pops.pop(bench)
        await pops.acknowledge(bench, handle)
        disk = disk.after_kill()  # the next broker does not know that all is acknowledged
    async with living(disk) as bench:
        await pops.pass_time(bench, AGAIN_MS)
        await bench.parts.timed_messages.save()
        bench.parts.offsets.save()
        assert bench.parts.offsets.committed(REVIVE_GROUP, pops.REVIVE, 0) == 1
        bench.store.append([once_more(records(bench, pops.REVIVE)[0])])
        disk = disk.after_kill()
    async with living(disk, AGAIN_MS) as bench:
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == []
        assert bench.parts.offsets.committed(REVIVE_GROUP, pops.REVIVE, 0) == 2


async def test_a_message_that_comes_back_as_it_was_is_stored_behind_itself_only() -> None:
    """Its consumer suspends it: then its record equals the next one, to the last property."""
    disk, passed_ms = MemoryDisk(), AGAIN_MS
    async with living(disk) as bench:
        await send(bench, b"0")
        await pops.pop(bench)
        await pops.pass_time(bench, AGAIN_MS)
        for _ in range(2):
            (handle,) = await pops.pop(bench)
            header = ChangeInvisibleHeader(
                "g", pops.RETRY, 0, str(handle), handle.offset, 1_500, suspend=True
            )
            answer = await bench.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
            assert answer.code == ResponseCode.SUCCESS, answer
            dead = disk.after_kill()
            await pops.pass_time(bench, 3_500)
            passed_ms += 3_500
        _, second, third = pops.returned(bench)
        assert (second.properties, second.reconsume_times) == (third.properties, third.reconsume_times)
    async with living(dead, passed_ms) as bench:
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == [b"0"] * 3, "the second one was popped, and nobody acknowledged it"


async def test_a_message_without_unique_key_is_not_mistaken_for_another_one() -> None:
    disk = MemoryDisk()
    async with living(disk) as bench:
        await send(bench, b"tick")  # the broker gives a unique key to each that has none: others may not
        bench.store.append([once_more(records(bench, "T")[0])._replace(properties=b"")])
        assert len(await pops.pop(bench)) == 2
        await pops.pass_time(bench, AGAIN_MS)
        assert pops.bodies(bench) == [b"tick"] * 2
        disk = disk.after_kill()
    async with living(disk, AGAIN_MS) as bench:
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == [b"tick"] * 3


async def test_only_so_much_of_a_tail_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_before, "TAIL_MAX", 2)
    disk = MemoryDisk()
    async with living(disk) as bench:
        await send(bench, b"0", b"1", b"2")
        await pops.pop(bench)
        await pops.pass_time(bench, AGAIN_MS)
        disk = disk.after_kill()
    async with living(disk, AGAIN_MS) as bench:
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == [b"0", b"1", b"2", b"0"], "the first one is not in the last two"
