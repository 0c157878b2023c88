"""Sends that are refused because the broker cannot keep up."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SYNC, Bench, Client, GatedDisk, bodies, pull_header, send_header, serving

from cometmq.testing.memory_disk import Content, MemoryDisk
from cometmq.wire import headers
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

ROOT = Path("/disk/store")
SEND = RequestCode.SEND_MESSAGE_V2
BUSY = ResponseCode.SYSTEM_BUSY


class SlowDisk(MemoryDisk):
    """A disk that lets the test do something before its next write."""

    def __init__(self) -> None:
        super().__init__()
        self.before_write: Callable[[], object] | None = None

    def take_space(self, content: Content, position: int, size: int) -> int:
        before_write, self.before_write = self.before_write, None
        if before_write is not None:
            before_write()
        return super().take_space(content, position, size)


async def stored(bench: Bench) -> list[bytes]:
    return bodies(await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T")))


async def test_while_as_many_sends_as_may_wait_for_the_disk_do_so_more_are_refused() -> None:
    disk, store = GatedDisk(), SYNC | {"sync_flush_timeout": 60_000}
    async with serving(ROOT, store, files=disk, send_thread_pool_queue_capacity=2) as bench:
        await bench.send("T", b"first")
        disk.gate.clear()
        waiting = [bench.ask_later(SEND, send_header("T"), body) for body in (b"a", b"b")]
        await bench.ask(RequestCode.GET_MAX_OFFSET, pull_header("T"))  # they have been taken
        refused = await bench.send("T", b"refused")
        assert refused.code == BUSY
        assert refused.remark == "[OVERLOAD]system busy, start flow control for a while"
        bench.connection.oneway(Command(SEND, ext_fields=headers.fields(send_header("T")), body=b"oneway"))
        await bench.ask(RequestCode.GET_MAX_OFFSET, pull_header("T"))
        disk.gate.set()
        assert [(await answer).code for answer in waiting] == [0, 0]
        assert (await bench.send("T", b"last")).code == 0
        assert await stored(bench) == [b"first", b"a", b"b", b"last"]


@pytest.mark.parametrize(
    ("settings", "remark"),
    [
        (
            {},
            "[PCBUSY_CLEAN_QUEUE]broker busy, {}, period in queue: 1500ms, size of queue: 1",
        ),
        (
            {"broker_fast_failure_enable": False},
            "[PC_SYNCHRONIZED]broker busy, {}",
        ),
    ],
)
async def test_what_comes_while_an_append_takes_too_long_is_refused(
    settings: dict[str, Any], remark: str
) -> None:
    disk = SlowDisk()
    async with serving(ROOT, files=disk, **settings) as bench:
        other = await Client.open(bench.address)
        await bench.send("T", b"first")
        await other.send("T", b"second")
        disk.before_write = partial(bench.clock.advance, 1_500)
        sends = [client.ask_later(SEND, send_header("T"), b"one of two") for client in (bench, other)]
        taken, refused = sorted([await send for send in sends], key=lambda answer: answer.code)
        assert (taken.code, refused.code) == (0, BUSY)
        assert refused.remark == remark.format("start flow control for a while")
        for _ in range(10):
            await asyncio.sleep(0)
        assert (await bench.send("T", b"last")).code == 0
        assert await stored(bench) == [b"first", b"second", b"one of two", b"last"]
        disk.before_write = partial(bench.clock.advance, 1_000)
        sends = [client.ask_later(SEND, send_header("T"), b"quick") for client in (bench, other)]
        assert [(await send).code for send in sends] == [0, 0], "a second is not too long"
        await other.connection.close()


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_sends_that_have_waited_too_long_are_refused_and_others_are_not(is_enabled: bool) -> None:
    async def main() -> None:
        limits: dict[str, Any] = {"turn_bytes_max": 4096, "unhandled_bytes_max": 1 << 20}
        async with serving(ROOT, broker_fast_failure_enable=is_enabled, **limits) as bench:
            await bench.send("T", b"first")
            sends = [bench.ask_later(SEND, send_header("T"), bytes(300)) for _ in range(50)]
            await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
            bench.clock.advance(250)
            answers = [await send for send in sends]
            refused = [answer for answer in answers if answer.code]
            assert len(await stored(bench)) == min(51 - len(refused), 32)
            if not is_enabled:
                assert refused == []
                return
            assert 0 < len(refused) < 50, "some were in time, and those behind them waited for one turn only"
            assert {answer.code for answer in refused} == {BUSY}
            busy = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            assert all(f"{busy}period in queue: 250ms, " in (answer.remark or "") for answer in refused)

    await main()
