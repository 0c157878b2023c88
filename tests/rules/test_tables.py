"""The broker's tables: a file that a crash broke must cost nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.broker.conftest import bodies, pull_header, serving

from cometmq.format import layout
from cometmq.format.layout import backup_path
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire import headers
from cometmq.wire.codes import RequestCode, ResponseCode

TABLES = ("topics", "consumerOffset", "subscriptionGroup")


def half(good: bytes) -> bytes:
    return good[: len(good) // 2]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(half, id="half-written"),
        pytest.param(lambda good: bytes(len(good)), id="zeros"),
    ],
)
async def test_a_broken_table_neither_stops_the_start_nor_replaces_its_good_backup(
    tmp_path: Path, name: str, broken: Callable[[bytes], bytes]
) -> None:
    """RocketMQ #3401, #6096, #9328 (#10258), #9412.

    A crash while consumerOffset.json, delayOffset.json and the like were written left them empty or cut. The
    broker did not start, or started with all offsets lost; and the next save copied the broken file over the
    good ``.bak``, so that nothing was left to go back to.
    """

    async def committed() -> str:
        ask = headers.QueryConsumerOffsetHeader("cg", "T", 0)
        answer = await bench.ask(RequestCode.QUERY_CONSUMER_OFFSET, ask)
        return answer.ext_fields["offset"]

    async def commit(offset: int) -> None:
        header = headers.UpdateConsumerOffsetHeader("cg", "T", 0, offset)
        await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        bench.parts.offsets.save()

    path = layout.config_path(tmp_path, name)
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T")
        for n in range(9):
            await bench.send("T", b"%d" % n)
        await bench.send("Other")
        await bench.heartbeat("other", "T")
        await commit(6)
        await commit(7)
    for start in range(3):  # it breaks before each of them
        path.write_bytes(broken(path.read_bytes()))
        async with serving(tmp_path) as bench:
            pulled = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
            assert bodies(pulled) == [b"%d" % n for n in range(9)]
            assert int(await committed()) >= 6
            await commit(7 + start)
            await bench.send(f"New{start}")


def test_a_shorter_table_leaves_no_tail_of_the_longer_one_before_it(tmp_path: Path) -> None:
    """RocketMQ #9705, #9706, #10518.

    A table was written over the old one in place, and not cut: behind a shorter one there was the rest of the
    longer one before it, and the whole could not be read.
    """
    path = tmp_path / "config" / "topics.json"
    table = JsonTable(Disk(), path)
    table.save({"topics": {f"T{n}": n for n in range(100)}})
    table.save({"topics": {}})
    assert path.read_bytes().split() == [b"{", b'"topics":{', b"}", b"}"]
    assert JsonTable(Disk(), path).load() == {"topics": {}}
    assert JsonTable(Disk(), backup_path(path)).load() == {"topics": {f"T{n}": n for n in range(100)}}


async def test_a_topic_that_no_table_knows_any_more_keeps_its_messages(tmp_path: Path) -> None:
    """NATS JetStream (Jepsen, 2.12.1), nats-server #7556.

    A stream whose metadata could not be read was taken for an orphan, and deleted.
    """

    async with serving(tmp_path) as bench:
        for n in range(9):
            await bench.send("T", b"%d" % n)
    shutil.rmtree(tmp_path / "config")
    async with serving(tmp_path) as bench:
        unknown = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST
        bench.clock.advance(3_600_000)
        bench.store.tick()
        await bench.send("T", b"9")  # makes the topic again
        pulled = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        assert bodies(pulled) == [b"%d" % n for n in range(10)]
