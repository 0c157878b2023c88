"""A master's port, byte by byte."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.replication.conftest import (
    acked,
    log_bytes,
    name_server,
    running,
    until,
)
from tests.store.conftest import new_message

from cometmq.broker.broker import Broker
from cometmq.net import occasional_log
from cometmq.replication.frames import HEAD_SIZE, LogFrameReader, encode_report

MANY = 3_000


async def test_only_allowed_addresses_are_slaves(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        running(tmp_path, names, ha_allowed_addresses="10.1.2.3") as master,
    ):
        assert master.parts.replication.port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", master.parts.replication.port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert not master.parts.replication.acks.by_slave


class Peer:
    """A slave that is only a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = LogFrameReader(1 << 20)

    def report(self, end_offset: int) -> None:
        self.writer.write(encode_report(end_offset))

    async def bytes_from(self, offset: int, size: int) -> bytes:
        """Read frames until there are so many bytes; they must be adjacent."""
        found = b""
        while len(found) < size:
            for frame in self._frames.receive(await self.reader.read(1 << 16)):
                assert frame.offset == offset + len(found)
                found += frame.data
        return found

    async def heartbeat(self) -> int:
        """Read one heartbeat, and return its offset."""
        head = await self.reader.readexactly(HEAD_SIZE)
        assert head[8:] == bytes(4)
        return int.from_bytes(head[:8], "big")


@asynccontextmanager
async def peer_of(master: Broker) -> AsyncIterator[Peer]:
    assert master.parts.replication.port is not None
    peer = Peer(*await asyncio.open_connection("127.0.0.1", master.parts.replication.port))
    try:
        async with asyncio.timeout(60):
            yield peer
    finally:
        peer.writer.close()


@asynccontextmanager
async def master_alone(root: Path, **settings: Any) -> AsyncIterator[Broker]:
    async with name_server() as names, running(root, names, **settings) as master:
        master.store.append([new_message("T", body=b"a" * 700)] * MANY)
        yield master


async def test_nothing_is_sent_before_the_first_report_and_then_the_whole_log(tmp_path: Path) -> None:
    async with master_alone(tmp_path) as master, peer_of(master) as peer:
        await until(lambda: bool(master.parts.replication.acks.by_slave))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):  # that a heartbeat's interval has passed is what matters
                await peer.reader.read(1)
        peer.report(0)
        end = master.store.written_offset
        files = b"".join(data for _, data in log_bytes(tmp_path))
        assert await peer.bytes_from(0, end) == files[:end]
        assert await peer.heartbeat() == end
        peer.report(end)
        await until(lambda: acked(master) == end)
        master.store.append([new_message("T")])
        assert len(await peer.bytes_from(end, 1)) == master.store.written_offset - end


@pytest.mark.parametrize(("whole", "files"), [(True, 0), (False, 2)])
async def test_an_empty_slave_gets_the_whole_log_or_the_last_file(
    tmp_path: Path, *, whole: bool, files: int
) -> None:
    async with master_alone(tmp_path, ha_send_whole_log=whole) as master, peer_of(master) as peer:
        peer.report(0)
        begin = files * (1 << 20)
        await peer.bytes_from(begin, master.store.written_offset - begin)


async def test_a_slave_is_served_from_its_report_on_and_frames_end_with_files(tmp_path: Path) -> None:
    async with master_alone(tmp_path, ha_transfer_batch_size=1024) as master, peer_of(master) as peer:
        begin = (1 << 20) - 1500
        peer.report(begin)
        head = await peer.reader.readexactly(HEAD_SIZE)
        assert head == begin.to_bytes(8, "big") + (1024).to_bytes(4, "big")
        await peer.reader.readexactly(1024)
        head = await peer.reader.readexactly(HEAD_SIZE)
        assert head == (begin + 1024).to_bytes(8, "big") + (476).to_bytes(4, "big"), "the file ends there"


async def test_who_reports_more_than_there_is_is_cut_off(tmp_path: Path) -> None:
    async with master_alone(tmp_path) as master, peer_of(master) as peer:
        peer.report(master.store.written_offset + 1)
        with contextlib.suppress(ConnectionResetError):
            assert await peer.reader.read() == b""


async def test_wrong_reports_are_logged_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occasional_log, "LOG_INTERVAL_S", 3_600)
    caplog.set_level(logging.INFO)
    async with master_alone(tmp_path) as master:
        for _ in range(5):
            async with peer_of(master) as peer:
                peer.report(master.store.written_offset + 1)
                with contextlib.suppress(ConnectionResetError):
                    assert await peer.reader.read() == b""
    gone = re.findall(
        r"slave 127.0.0.1:\d+ is gone: .*?(\(4 such since the last line\))?$", caplog.text, re.MULTILINE
    )
    assert gone == ["", "(4 such since the last line)"]


async def test_slaves_that_come_and_go_are_logged_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occasional_log, "LOG_INTERVAL_S", 3_600)
    caplog.set_level(logging.INFO)
    async with master_alone(tmp_path) as master:
        for _ in range(5):
            async with peer_of(master) as peer:
                peer.report(0)
                await until(lambda: bool(master.parts.replication.status().connections))
            await until(lambda: not master.parts.replication.status().connections)
    assert re.findall(
        r"slave 127.0.0.1:\d+ (\S+ \S+): .*?(?:\((4) such .*\))?$", caplog.text, re.MULTILINE
    ) == [
        ("has connected", ""),
        ("is gone", ""),
        ("has connected", "4"),
        ("is gone", "4"),
    ]


async def test_who_is_silent_is_cut_off(tmp_path: Path) -> None:
    async with master_alone(tmp_path, ha_housekeeping_interval=1) as master, peer_of(master) as peer:
        with contextlib.suppress(ConnectionResetError):
            assert await peer.reader.read() == b""
        await until(lambda: not master.parts.replication.acks.by_slave)


async def test_without_slaves_an_append_calls_nobody(tmp_path: Path) -> None:
    async with master_alone(tmp_path) as master:
        assert master.store.appending._end is None
        async with peer_of(master) as peer:
            await until(lambda: bool(master.parts.replication.acks.by_slave))
            assert master.store.appending._end is None, "it has not reported"
            peer.report(0)
            await until(lambda: master.store.appending._end is not None)
        await until(lambda: master.store.appending._end is None)
