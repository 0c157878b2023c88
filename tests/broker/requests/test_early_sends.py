"""Sends to topics that the disk does not have yet."""

import asyncio
from pathlib import Path

from tests.broker.conftest import Client, bodies, send_header, serving
from tests.kit.stores import HeldDisk

from cometmq.broker.requests import early_sends
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

ROOT = Path("/disk/store")


def send(client: Client, topic: str, body: bytes) -> "asyncio.Future[Command]":
    return client.ask_later(RequestCode.SEND_MESSAGE_V2, send_header(topic), body)


async def test_nothing_is_stored_under_a_topic_before_the_disk_has_it() -> None:
    disk = HeldDisk()
    async with serving(ROOT, files=disk) as bench:
        await bench.send("Old")
        disk.gate.clear()
        answers = [send(bench, "New", b"%d" % n) for n in range(3)]
        assert (await bench.send("Old")).code == ResponseCode.SUCCESS, "others are not held up"
        assert not any(answer.done() for answer in answers)
        assert bench.store.max_queue_offset("New", 0) == 0
        assert bench.parts.topics.find("New") is not None
        disk.gate.set()
        for n, answer in enumerate(answers):
            assert (await answer).ext_fields["queueOffset"] == str(n)
        assert bodies(bench.store.get("New", 0, 0).records) == [b"0", b"1", b"2"]


async def test_if_the_disk_refuses_the_topic_nothing_is_stored_and_all_are_told() -> None:
    disk = HeldDisk()
    async with serving(ROOT, files=disk) as bench:
        await bench.send("Old")
        disk.refuses = True
        for answer in [send(bench, "New", b"%d" % n) for n in range(3)]:
            refused = await answer
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "disk full" in (refused.remark or "")
        assert bench.parts.topics.find("New") is None
        assert bench.store.max_queue_offset("New", 0) == 0
        assert bench.parts.rates.refused.total == 3
        disk.refuses = False
        assert (await bench.send("New")).code == ResponseCode.SUCCESS


async def test_so_many_bytes_wait_and_no_more() -> None:
    size_max = 2 * (early_sends.SEND_BYTES + 5)
    disk = HeldDisk()
    async with serving(ROOT, files=disk, early_bytes_total_max=size_max) as bench:
        disk.gate.clear()
        first = send(bench, "New", b"12345")
        second = send(bench, "Newer", b"12345")
        refused = await send(bench, "New", b"1")
        assert refused.code == ResponseCode.SYSTEM_BUSY
        told = f"{size_max} bytes wait for new topics to be saved, at most {size_max} may"
        assert told in (refused.remark or "")
        disk.gate.set()
        assert (await first).code == (await second).code == ResponseCode.SUCCESS
        assert (await bench.send("Newest", b"1234567890")).code == ResponseCode.SUCCESS
