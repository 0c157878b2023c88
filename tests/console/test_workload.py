import asyncio
import threading

import pytest

from cometmq.console import workload as module
from cometmq.console.workload import Busy, Workload
from cometmq.io import memory


class SomeExport:
    """An export whose reader has read nothing for some seconds."""

    def __init__(self, unread_s: float = 0) -> None:
        self.unread_s = unread_s
        self.has_given_way = False

    def give_way(self) -> None:
        self.has_given_way = True


async def test_no_more_exports_run_than_may() -> None:
    workload = Workload(2)
    with workload.export(SomeExport()):
        with (
            workload.export(SomeExport()),
            pytest.raises(Busy, match=r"too many exports run: 2 may at a time \(--exports-max\), try"),
            workload.export(SomeExport()),
        ):
            pass
        with workload.export(SomeExport()):
            pass


async def test_the_export_that_waits_longest_for_its_reader_gives_way_to_another() -> None:
    workload = Workload(3)
    slow, slower, reads = exports = [SomeExport(module.GIVES_WAY_S), SomeExport(20), SomeExport()]
    with workload.export(slow), workload.export(slower), workload.export(reads):
        with workload.export(SomeExport()):
            assert [one.has_given_way for one in exports] == [False, True, False]
            with workload.export(SomeExport()):
                assert slow.has_given_way
                with pytest.raises(Busy), workload.export(SomeExport()):
                    pass
        with workload.export(SomeExport()), workload.export(SomeExport()):
            assert not reads.has_given_way


async def test_no_more_bytes_of_forms_arrive_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMS_BYTES_MAX", 10)
    workload = Workload(1)
    with workload.form() as first:
        first(4)
        with workload.form() as second:
            second(6)
            with pytest.raises(Busy, match="10 bytes of forms are arriving: send it again"):
                first(1)
        first(6)


async def test_what_was_free_in_between_is_returned_to_the_system_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trimmed: asyncio.Queue[None] = asyncio.Queue()
    monkeypatch.setattr(module, "TRIM_S", 0)
    monkeypatch.setattr(memory, "trim_heap", lambda: trimmed.put_nowait(None))
    workload = Workload(2)
    for _ in range(3):
        with workload.export(SomeExport()), workload.form():
            pass
    await trimmed.get()
    assert trimmed.empty()
    with workload.export(SomeExport()):
        pass
    await trimmed.get()


async def test_what_a_visitor_who_has_left_asked_for_ends_before_the_next_begins() -> None:
    workload, begun, may_end = Workload(1), threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return may_end.wait(60)

    left = asyncio.create_task(workload.off_loop(work))
    await asyncio.to_thread(begun.wait, 60)
    left.cancel()
    following = asyncio.create_task(workload.off_loop(may_end.is_set))
    may_end.set()
    assert await following
    await asyncio.wait([left])
    assert left.cancelled()


async def test_one_thing_at_a_time_is_done_in_a_thread() -> None:
    workload, running, most, lock = Workload(1), 0, 0, threading.Lock()
    loop_thread = threading.get_ident()

    def work() -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        return threading.get_ident() != loop_thread

    assert all(await asyncio.gather(*(workload.off_loop(work) for _ in range(50))))
    assert most == 1
