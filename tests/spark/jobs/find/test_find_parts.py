"""What tasks find is what one machine finds, whatever is asked for, on disks and elsewhere."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.counted import CountedFiles
from tests.log_rows import Row, plain_rows

from cometmq.format import layout
from cometmq.spark.files import remote_files
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import splits, within
from cometmq.spark.jobs.find.find_parts import WalkedPart, look_up, walk
from cometmq.store.directory import StoreDirectory
from cometmq.store.offline.find import TIME_MAX, TIME_MIN, FindQuery, find

LIMIT = 10**9


@pytest.fixture(scope="module")
def rows(golden: Mapping[str, Path]) -> list[Row]:
    """Return the messages of the store."""
    return list(plain_rows(golden["store-clean"]))


def found_in_parts(store: Path, wanted: FindQuery, bytes_per_task: int, *, use_index: bool) -> list[int]:
    """Find messages as the job does, with all parts walked; return where they are in the log."""
    found = look_up(store, wanted, LIMIT, use_index=use_index)
    offsets = list(found.found)
    for begin, end in found.ranges:
        for split in splits(found.files, bytes_per_task):
            if pieces := within(split, begin, end):
                part = WalkedPart(0, pieces, wanted, found.crc, found.delay_levels, LIMIT)
                hits = [row for batch in walk(part) for row in batch.to_pylist()]
                assert [row["error"] for row in hits if row["error"]] == []
                offsets += [row["offset"] for row in hits]
    assert len(set(offsets)) == len(offsets)
    return sorted(offsets)


def found_alone(store: Path, wanted: FindQuery, *, use_index: bool) -> list[int]:
    with StoreDirectory(store) as opened:
        return [found.record.physical_offset for found in find(opened, wanted, use_index=use_index)]


def asked(rows: list[Row], number: int, mask: int) -> FindQuery:
    """Return what is asked for: some of what is known of a message."""
    row = rows[number % len(rows)]
    key = next(iter(row["keys"]), None)
    return FindQuery(
        message_id=(row["unique_id"] if mask & 1 else row["offset_id"]) if mask & 2 else None,
        key=key if mask & 4 else None,
        topic=row["topic"] if mask & 8 else None,
        tags=row["tags"] if mask & 16 else None,
        begin_time=row["store_time"] - 50 if mask & 32 else TIME_MIN,
        end_time=row["store_time"] + 50 if mask & 64 else TIME_MAX,
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    number=st.integers(0, 10**6),
    mask=st.integers(0, 127),
    bytes_per_task=st.sampled_from([70_000, 1 << 30]),
    use_index=st.booleans(),
)
def test_what_is_found_is_what_one_machine_finds(
    golden: Mapping[str, Path],
    rows: list[Row],
    number: int,
    mask: int,
    bytes_per_task: int,
    *,
    use_index: bool,
) -> None:
    wanted, store = asked(rows, number, mask), golden["store-clean"]
    expected = found_alone(store, wanted, use_index=use_index)
    assert found_in_parts(store, wanted, bytes_per_task, use_index=use_index) == expected


def test_of_a_remote_store_an_index_leads_to_a_message_without_the_log_being_walked(
    golden: Mapping[str, Path], rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden["store-clean"]
    files = [path for path in store.rglob("*") if path.is_file()]
    CountedFiles.start({f"lake/a/{path.relative_to(store)}": path.read_bytes() for path in files})
    monkeypatch.setattr(remote_files, "BLOCK", 4_096)  # so that no file is small
    monkeypatch.setattr(remote_files, "NEAR_BYTES", 512)
    row = next(row for row in rows if row["keys"])
    topic = row["topic"]
    for wanted in (FindQuery(key=row["keys"][0], topic=topic), FindQuery(message_id=row["offset_id"])):
        CountedFiles.fetched.clear()
        offsets = found_in_parts(path_of("counted://lake/a"), wanted, 1 << 30, use_index=True)
        assert row["physical_offset"] in offsets
        fetched = CountedFiles.fetched
        first = sum(size for path, size in fetched.items() if path.endswith(layout.offset_name(0)))
        index = sum(size for path, size in fetched.items() if "/index/" in path)
        assert first < 10_000, fetched  # the second file has what is behind the index's end
        assert index < sum(path.stat().st_size for path in layout.index_dir(store).iterdir()) / 2


def test_a_time_leads_to_its_files(golden: Mapping[str, Path], rows: list[Row]) -> None:
    store = golden["store-clean"]
    second = next(row for row in rows if row["physical_offset"] >= 1 << 20)
    for wanted, ranges in (
        (FindQuery(end_time=rows[0]["store_time"]), [(0, 1 << 20)]),
        (FindQuery(begin_time=second["store_time"] + 1), [(1 << 20, 2 << 20)]),
        (FindQuery(begin_time=0), [(0, 2 << 20)]),
    ):
        assert look_up(store, wanted, LIMIT, use_index=True).ranges == ranges


def test_a_part_that_cannot_be_read_says_why(golden: Mapping[str, Path], tmp_path: Path) -> None:
    found = look_up(golden["store-clean"], FindQuery(), LIMIT, use_index=True)
    (split,) = splits(found.files, 1 << 30)
    gone = split[0]._replace(file=split[0].file._replace(path=layout.commitlog_path(tmp_path, 0)))
    (batch,) = walk(WalkedPart(5, [gone], FindQuery(), found.crc, found.delay_levels, LIMIT))
    (row,) = batch.to_pylist()
    assert row["store"] == 5 and "No such file" in row["error"]
