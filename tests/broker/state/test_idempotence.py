import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Bench, GatedDisk, bodies, deliver, send_header, serving

from cometmq.errors import StoreNotWritable
from cometmq.format import layout, properties
from cometmq.store.settings import FlushDiskType
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import batch
from cometmq.wire.batch import BatchMessage
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import TopicHeader

ROOT = Path("/disk/store")
KEY = "IDEMPOTENCE_KEY"
SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
WINDOW_MS = 600_000
PHYSICAL_OFFSET_HEX = 16
"""The end of a message id; what comes before is the broker's address."""


def stored(bench: Bench, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return bodies(bench.store.get(topic, queue_id, 0).records)


def place(answer: Command) -> tuple[str, str, str]:
    """Return where a message is, as an answer says."""
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    ids = (one[-PHYSICAL_OFFSET_HEX:] for one in answer.ext_fields["msgId"].split(","))
    return ",".join(ids), answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]


def members(*keys: str, tag: str = "") -> bytes:
    """Build a batch; a member without a key has only its body."""
    return batch.encode(
        BatchMessage(f"{key or n}{tag}".encode(), properties.encode({KEY: key} if key else {}))
        for n, key in enumerate(keys)
    )


async def send_batch(bench: Bench, body: bytes, queue_id: int = 0) -> Command:
    return await bench.ask(RequestCode.SEND_BATCH_MESSAGE, send_header("T", queue_id), body)


async def test_a_known_key_is_answered_with_the_first_and_not_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"other", 2)
        first = await bench.send("T", b"first", 2, IDEMPOTENCE_KEY="k", UNIQ_KEY="u1")
        again = await bench.send("T", b"again", 3, IDEMPOTENCE_KEY="k", UNIQ_KEY="u2")
        assert place(again) == place(first) and place(first)[1:] == ("2", "1")
        assert again.ext_fields["transactionId"] == "u2"
        assert (stored(bench, "T", 2), stored(bench, "T", 3)) == ([b"other", b"first"], [])
        assert bench.parts.rates.stored.total == 2


async def test_sends_with_one_key_in_one_read_are_stored_once_and_the_order_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        headers = [
            send_header("T", IDEMPOTENCE_KEY=key) if key else send_header("T")
            for key in ("", "k", "k", "", "k", "l")
        ]
        asked = [
            bench.ask_later(RequestCode.SEND_MESSAGE_V2, header, b"%d" % n)
            for n, header in enumerate(headers)
        ]
        offsets = [place(answer)[2] for answer in await asyncio.gather(*asked)]
        assert offsets == ["0", "1", "1", "2", "1", "3"]
        assert stored(bench) == [b"0", b"1", b"3", b"5"]


async def test_a_key_counts_in_its_topic_and_inside_the_window(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        await bench.send("U", b"2", IDEMPOTENCE_KEY="k")
        bench.clock.advance(WINDOW_MS - 1)
        await bench.send("T", b"3", IDEMPOTENCE_KEY="k")
        bench.clock.advance(1)
        await bench.send("T", b"4", IDEMPOTENCE_KEY="k")
        await bench.send("T", b"5", IDEMPOTENCE_KEY="k")
        assert (stored(bench), stored(bench, "U")) == ([b"1", b"4"], [b"2"])


async def test_a_window_of_0_stores_all(tmp_path: Path) -> None:
    async with serving(tmp_path, idempotence_window_ms=0) as bench:
        await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        await bench.send("T", b"2", IDEMPOTENCE_KEY="k")
        assert stored(bench) == [b"1", b"2"]


async def test_of_a_batch_what_is_known_is_left_out_and_the_answer_names_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        first = await send_batch(bench, members("a", "b", "c"))
        assert place(await send_batch(bench, members("a", "b", "c", tag="!"), 1)) == place(first)
        mixed = place(await send_batch(bench, members("b", "d", "", "d", "e"), 1))
        assert stored(bench) == [b"a", b"b", b"c"]
        assert stored(bench, "T", 1) == [b"d", b"2", b"e"]
        records = bench.store.get("T", 1, 0).records
        ids = mixed[0].split(",")
        assert ids[0] == place(first)[0].split(",")[1]
        assert ids[1] == ids[3] and len(set(ids)) == len(records) + 1
        assert mixed[1:] == ("0", "1")  # the place of the first member


async def test_what_could_not_be_stored_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as bench:

        def refuse(_: object) -> None:
            raise StoreNotWritable("not now")

        monkeypatch.setattr(bench.store, "append", refuse)
        for answer in (
            await bench.send("T", b"1", IDEMPOTENCE_KEY="a"),
            await send_batch(bench, members("a")),
        ):
            assert (answer.code, answer.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "not now")
        monkeypatch.undo()
        assert place(await bench.send("T", b"2", IDEMPOTENCE_KEY="a"))[2] == "0"


async def test_a_delayed_message_counts_when_it_is_sent(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        first = await bench.send("T", b"1", 3, IDEMPOTENCE_KEY="k", DELAY="1")
        assert place(await bench.send("T", b"2", 1, IDEMPOTENCE_KEY="k", DELAY="1")) == place(first)
        assert place(first)[1] == "3"
        deliver(bench, 1_000)
        assert place(await bench.send("T", b"3", 1, IDEMPOTENCE_KEY="k")) == place(first)
        assert (stored(bench, "T", 3), stored(bench, "T", 1)) == ([b"1"], [])


async def test_what_a_consumer_gives_back_is_stored_each_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T")
        for body in (b"1", b"2"):
            await bench.send("%RETRY%cg", body, IDEMPOTENCE_KEY="k")
        assert stored(bench, "%RETRY%cg") == [b"1", b"2"]


async def test_a_topic_that_is_made_again_begins_without_keys(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        bench.parts.topics.put(TopicConfig(topic="T", read_queue_count=4, write_queue_count=4))
        for body in (b"2", b"3"):
            await bench.send("T", body, IDEMPOTENCE_KEY="k")
        assert stored(bench) == [b"2"]


@pytest.mark.parametrize("settings", [{}, {"enabled_append_prop_crc": True}])
def test_keys_outlive_a_restart(settings: dict[str, Any]) -> None:
    disk = MemoryDisk()
    places: dict[str, tuple[str, str, str]] = {}

    async def send_all(bench: Bench) -> dict[str, tuple[str, str, str]]:
        return {key: place(await bench.send("T", b"again", IDEMPOTENCE_KEY=key)) for key in places}

    async def before() -> None:
        async with serving(ROOT, settings, files=disk) as bench:
            bench.parts.idempotence.load()
            for n in range(500):  # the log has several files
                await bench.send("T", b"y" * 3_000, other=f"{KEY}{n}")
            places["single"] = place(await bench.send("T", b"1", 2, IDEMPOTENCE_KEY="single"))
            places["delayed"] = place(await bench.send("T", b"1", 1, IDEMPOTENCE_KEY="delayed", DELAY="1"))
            timed = {KEY: "timed", "TIMER_DELAY_SEC": "9"}
            places["timed"] = place(await bench.send("T", b"1", 2, **timed))
            deliver(bench, 1_000)
            ids, queue_id, offset = place(await send_batch(bench, members("a", "b"), 3))
            for n, (key, one) in enumerate(zip("ab", ids.split(","), strict=True)):
                places[key] = one, queue_id, str(int(offset) + n)
            places["late"] = place(await bench.send("T", f"{KEY}\1none\2".encode(), IDEMPOTENCE_KEY="late"))

    async def after() -> None:
        async with serving(ROOT, settings, files=disk) as bench:
            bench.clock.advance(1_000)
            bench.parts.idempotence.load()
            assert await send_all(bench) == places
            assert bench.parts.rates.stored.total == 0

    async def too_late() -> None:
        async with serving(ROOT, settings, files=disk) as bench:
            bench.clock.advance(WINDOW_MS + 2_000)
            bench.parts.idempotence.load()
            assert len(bench.parts.idempotence.known) == 0

    asyncio.run(before())
    asyncio.run(after())
    asyncio.run(after())
    asyncio.run(too_late())


async def test_a_restart_does_not_bring_back_the_keys_of_a_deleted_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        await bench.send("T", b"2", IDEMPOTENCE_KEY="l")
    async with serving(tmp_path) as bench:
        bench.parts.idempotence.load()
        assert len(bench.parts.idempotence.known) == 1
        await bench.send("T", b"3", IDEMPOTENCE_KEY="k")
        await bench.send("T", b"4", IDEMPOTENCE_KEY="l")
        assert stored(bench) == [b"2", b"3"]


async def test_a_store_in_which_no_key_was_used_is_not_searched(tmp_path: Path) -> None:
    path = layout.config_path(tmp_path, "idempotence")
    async with serving(tmp_path) as bench:
        await bench.send("T", b"1")
        assert not path.exists()
    async with serving(tmp_path) as bench:
        bench.store.recent = None  # type: ignore[assignment,method-assign]  # it would fail
        bench.parts.idempotence.load()
        await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        assert path.exists()


async def test_under_sync_flush_a_known_key_is_answered_when_the_first_is_on_the_disk() -> None:
    disk = GatedDisk()
    async with serving(ROOT, SYNC, files=disk) as bench:
        await bench.send("T", b"other", IDEMPOTENCE_KEY="other")  # makes the table
        disk.gate.clear()
        header = send_header("T", IDEMPOTENCE_KEY="k")
        asked = [bench.ask_later(RequestCode.SEND_MESSAGE_V2, header, body) for body in (b"1", b"2")]
        await bench.heartbeat("cg", "T")  # answered behind them, and waits for no disk
        assert not any(one.done() for one in asked)
        disk.gate.set()
        first, again = await asyncio.gather(*asked)
        assert place(first) == place(again)
        assert place(await bench.send("T", b"3", IDEMPOTENCE_KEY="k")) == place(first)
        assert stored(bench) == [b"other", b"1"]


async def test_a_key_is_not_stored_where_the_table_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    async with serving(ROOT, files=disk) as bench:
        save = disk.save

        def fail(path: Path, data: bytes) -> None:
            if path.name == "idempotence.json":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            save(path, data)

        monkeypatch.setattr(disk, "save", fail)
        answer = await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        monkeypatch.undo()
        assert place(await bench.send("T", b"2", IDEMPOTENCE_KEY="k"))[2] == "0"


@pytest.mark.parametrize("step_ms", [365 * 24 * 3_600_000, -WINDOW_MS])
async def test_a_key_counts_for_the_window_however_the_wall_clock_is_set(
    tmp_path: Path, step_ms: int
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"1", IDEMPOTENCE_KEY="k")
        bench.clock.advance(1_000)
        bench.clock.set_wall(bench.clock.now_ms() + step_ms)
        bench.clock.advance(WINDOW_MS - 1_001)
        await bench.send("T", b"2", IDEMPOTENCE_KEY="k")
        bench.clock.advance(1)
        await bench.send("T", b"3", IDEMPOTENCE_KEY="k")
        assert stored(bench) == [b"1", b"3"]
