import asyncio
from pathlib import Path
from typing import Any

from tests.broker.conftest import SYNC, serving

from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.requests.pop.disk_answers import DiskAnswers
from cometmq.store.append import NewMessage
from cometmq.wire.frame import ONEWAY_FLAG, Command, response

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"


class Peer:
    """Receives answers."""

    def __init__(self) -> None:
        self.answers: list[Command | bytes] = []
        self.came = asyncio.Event()

    def send(self, answer: Command | bytes) -> None:
        self.answers.append(answer)
        self.came.set()

    send_at_once = send


async def test_an_answer_waits_for_the_disk_only_under_sync_flush(tmp_path: Path) -> None:
    request, peer = Command(1), Peer()
    session: Any = peer
    async with serving(tmp_path / "async") as bench:
        DiskAnswers(bench.store, bench.parts.groups, DiskWaits(bench.store)).send(
            session, request, response(request)
        )
        assert len(peer.answers) == 1
    peer.came.clear()
    async with serving(tmp_path / "sync", SYNC) as bench:
        answers = DiskAnswers(bench.store, bench.parts.groups, DiskWaits(bench.store))
        bench.store.append([NewMessage("T", 0, b"x", b"", 0, HOST, HOST)])
        answers.send(session, request, response(request))
        assert len(peer.answers) == 1
        await peer.came.wait()
        assert bench.store.flushed_offset == bench.store.written_offset


async def test_a_one_way_request_gets_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        request, peer = Command(1, flag=ONEWAY_FLAG), Peer()
        session: Any = peer
        DiskAnswers(bench.store, bench.parts.groups, DiskWaits(bench.store)).send(
            session, request, response(request)
        )
        assert peer.answers == []


async def test_many_answers_wait_for_the_disk_together(tmp_path: Path) -> None:
    peers: list[Any] = [Peer(), Peer()]
    frames = [(peers[0], b"one"), (peers[1], b"two")]
    async with serving(tmp_path / "async") as bench:
        DiskAnswers(bench.store, bench.parts.groups, DiskWaits(bench.store)).send_all(frames)
        assert [peer.answers for peer in peers] == [[b"one"], [b"two"]]
    async with serving(tmp_path / "sync", SYNC) as bench:
        waits = DiskWaits(bench.store)
        answers = DiskAnswers(bench.store, bench.parts.groups, waits)
        bench.store.append([NewMessage("T", 0, b"x", b"", 0, HOST, HOST)])
        peers[1].came.clear()
        answers.send_all([])
        answers.send_all(frames)
        assert [len(peer.answers) for peer in peers] == [1, 1]
        await peers[1].came.wait()
        assert [peer.answers for peer in peers] == [[b"one"] * 2, [b"two"] * 2]
        assert bench.store.flushed_offset == bench.store.written_offset
