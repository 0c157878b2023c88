"""Where pops begin, and when that is committed."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SYNC, Bench, serving
from tests.broker.pops import committed

from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.format.pop.names import RetryFlag
from cometmq.store.reading import run

KEY = "T@g"


class Syncs:
    """The disk's syncs, which tests let happen."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[str | None], None]] = []

    def add(self, done: Callable[[str | None], None], count: int = 1) -> None:
        assert count == 0  # it is no send
        self.waiting.append(done)

    def happen(self, error: str | None = None) -> None:
        self.waiting.pop(0)(error)


@asynccontextmanager
async def offsets_of(
    root: Path, store: dict[str, Any] | None = None, *, begins_young: bool = True
) -> AsyncIterator[tuple[Bench, PopOffsets, Syncs]]:
    async with serving(root, store) as bench:
        for n in range(3):
            await bench.send("T", b"%d" % n)
        syncs: Any = Syncs()
        offsets = PopOffsets(bench.store, bench.parts.offsets, syncs, begins_young=begins_young)
        yield bench, offsets, syncs


@pytest.mark.parametrize(
    ("flag", "init_mode", "begins_young", "offset"),
    [
        (RetryFlag.NONE, 0, True, 0),
        (RetryFlag.NONE, 1, True, 0),
        (RetryFlag.NONE, 1, False, 2),
        (RetryFlag.V1, 1, False, 0),
    ],
)
async def test_where_a_new_group_begins_is_committed(
    tmp_path: Path, flag: RetryFlag, init_mode: int, *, begins_young: bool, offset: int
) -> None:
    async with offsets_of(tmp_path, begins_young=begins_young) as (bench, offsets, _):
        assert offsets.next_offset(KEY, 0) is None
        assert run(offsets.begin(KEY, 0, flag, init_mode)) == offset
        assert committed(bench) == {0: offset} and offsets.next_offset(KEY, 0) == offset


async def test_an_empty_queue_begins_at_0(tmp_path: Path) -> None:
    async with offsets_of(tmp_path, begins_young=False) as (_, offsets, _):
        assert run(offsets.begin(KEY, 1, RetryFlag.NONE, 1)) == 0


async def test_a_move_is_committed_at_once(tmp_path: Path) -> None:
    async with offsets_of(tmp_path) as (bench, offsets, syncs):
        offsets.move(KEY, 0, 2)
        assert committed(bench) == {0: 2} and syncs.waiting == []
        assert bench.parts.offsets.pulled("g", "T", 0) == 2
        bench.parts.offsets.reset("g", "T", 0, 1)
        assert offsets.is_any_reset
        offsets.move(KEY, 0, 3)
        assert committed(bench) == {0: 1}, "the reset holds until a pop has taken it"
        assert bench.parts.offsets.pulled("g", "T", 0) == 3


@pytest.mark.parametrize("settings", [None, SYNC])
async def test_where_the_pops_of_several_queues_begin_is_known_together(
    tmp_path: Path, settings: dict[str, Any] | None
) -> None:
    async with offsets_of(tmp_path, settings) as (bench, offsets, _):
        assert offsets.next_offsets(KEY, (1, 0)) == [None, None]
        bench.parts.offsets.commit("g", "T", 1, 0)
        offsets.move(KEY, 0, 2)
        assert offsets.next_offsets(KEY, (2, 0, 1)) == [None, 2, 0]


async def test_under_sync_flush_moves_are_committed_as_the_disk_has_them(tmp_path: Path) -> None:
    async with offsets_of(tmp_path, SYNC) as (bench, offsets, syncs):
        offsets.move(KEY, 0, 1)
        offsets.move(KEY, 0, 2)
        assert committed(bench) == {} and offsets.next_offset(KEY, 0) == 2
        syncs.happen()
        assert committed(bench) == {0: 1} and offsets.next_offset(KEY, 0) == 2
        syncs.happen()
        assert committed(bench) == {0: 2} and offsets.next_offset(KEY, 0) == 2


async def test_what_may_not_be_on_the_disk_is_not_committed_but_not_repeated_either(tmp_path: Path) -> None:
    async with offsets_of(tmp_path, SYNC) as (bench, offsets, syncs):
        offsets.move(KEY, 0, 1)
        syncs.happen("timeout")
        assert committed(bench) == {} and offsets.next_offset(KEY, 0) == 1
        offsets.move(KEY, 0, 2)
        syncs.happen()
        assert committed(bench) == {0: 2}


async def test_a_reset_is_not_undone_by_a_sync_that_comes_later(tmp_path: Path) -> None:
    async with offsets_of(tmp_path, SYNC) as (bench, offsets, syncs):
        assert offsets.take_reset(KEY, 0) is None
        offsets.move(KEY, 0, 3)
        bench.parts.offsets.reset("g", "T", 0, 1)
        assert offsets.has_reset(KEY, 0) and not offsets.has_reset(KEY, 1)
        assert offsets.take_reset(KEY, 0) == 1
        assert (offsets.has_reset(KEY, 0), offsets.next_offset(KEY, 0)) == (False, 1)
        syncs.happen()
        assert committed(bench) == {0: 1}
        offsets.move(KEY, 0, 2)
        syncs.happen()
        assert committed(bench) == {0: 2}


async def test_an_acknowledgement_is_not_undone_by_a_sync_that_comes_later(tmp_path: Path) -> None:
    async with offsets_of(tmp_path, SYNC) as (bench, offsets, syncs):
        offsets.move(KEY, 0, 1)
        offsets.commit(KEY, 0, 3)
        syncs.happen()
        assert committed(bench) == {0: 3} and offsets.next_offset(KEY, 0) == 3
        offsets.commit(KEY, 1, 2)
        assert committed(bench) == {0: 3, 1: 2}


async def test_a_deleted_group_or_topic_has_no_offsets(tmp_path: Path) -> None:
    async with offsets_of(tmp_path, SYNC) as (bench, offsets, syncs):
        offsets.move(KEY, 0, 3)
        bench.parts.offsets.commit("g", "T", 1, 1)
        bench.parts.offsets.delete_group("g")
        assert offsets.next_offset(KEY, 0) is None
        syncs.happen()
        assert committed(bench) == {}
