"""Checked in parts, however it is cut and whatever is damaged, a store is what one machine says that it is.

Here the tasks of the job run one after the other, without Spark, on stores in which bits are flipped,
stretches are zeroed, and files are cut or removed.
"""

import pickle
import random
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.counted import CountedFiles
from tests.store.conftest import new_message

from cometmq.format import layout, properties
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.index import HEADER_SIZE
from cometmq.spark.files import log_end, remote, remote_files
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import splits
from cometmq.spark.jobs.piece_scan import PieceSeen
from cometmq.spark.jobs.rebuild.entries import Rules, topic_bytes
from cometmq.spark.jobs.verify import look as look_module
from cometmq.spark.jobs.verify.checks import (
    LISTED,
    Check,
    CheckOutcome,
    keys_check,
    queues_check,
    store_seen,
)
from cometmq.spark.jobs.verify.index import IndexSeen, index_parts
from cometmq.spark.jobs.verify.look import Claims, FinalCheck, check_places, list_store
from cometmq.spark.jobs.verify.rows import ENTRIES, ERROR, INDEX, KEYS, PIECE, QUEUE, LogPart, Rows, read_rows
from cometmq.store import MessageStore, StoreSettings
from cometmq.store.files.finding import Finding
from cometmq.store.verify import findings as findings_module
from cometmq.store.verify import verify
from cometmq.store.verify.findings import Findings
from cometmq.store.verify.keys import NONE_MISSING
from cometmq.store.verify.whole import state_of

OWN = StoreSettings(
    mapped_file_size_commit_log=32 * 1024,
    mapped_file_size_consume_queue=20 * 40,
    max_hash_slot_num=10,
    max_index_num=50,
    message_delay_level="3s 40s",
)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a store that was closed, and one that was not."""
    root = tmp_path_factory.mktemp("stores")
    with MessageStore.open(root / "closed", OWN) as store:
        for n in range(300):
            fill(store, n)
    shutil.copytree(root / "closed", root / "open")
    layout.abort_path(root / "open").write_text("1\n")
    return [root / "closed", root / "open"]


def fill(store: MessageStore, n: int) -> None:
    tags = "paid" if n % 2 else None
    message = new_message(queue_id=n % 3, body=b"%03d" % n * 60, tags=tags, keys=f"k{n} x{n}")
    store.append([message])
    if n % 10 == 0:
        named = properties.encode({"DELAY": "2"})
        store.append([new_message(SCHEDULE_TOPIC, 1)._replace(properties=named)])


@pytest.fixture(autouse=True)
def all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all findings: which ones are kept of many is a matter of order."""
    for module in (findings_module, look_module):
        monkeypatch.setattr(module, "PER_FILE_MAX", sys.maxsize)


def in_parts(root: Path, bytes_per_task: int) -> tuple[str, int, int, list[Finding]]:
    """Check a store as the job does; return its state, messages, bytes and what was found."""
    findings, looked = Findings(), list_store(root, OWN)
    findings.add_reported(looked.reported)
    claimed = max((Claims(0, root, OWN, [queue]).end() for queue in looked.queues), default=0)
    rules = Rules(OWN.crc, DelayLevels.parse(OWN.message_delay_level), indexed=True)
    logs = [LogPart(0, pieces, rules, looked.vouched_time) for pieces in splits(looked.files, bytes_per_task)]
    rows: list[Row] = []
    parts: list[Rows] = [*logs, *index_parts(0, looked, claimed)]
    for part in parts:
        rows += [row for batch in read_rows(part) for row in batch.to_pylist()]
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in (PIECE, INDEX, QUEUE, ERROR)}
    assert by_kind[ERROR] == []
    pieces: list[PieceSeen] = [pickle.loads(row["data"]) for row in by_kind[PIECE]]
    index: list[IndexSeen] = [pickle.loads(row["data"]) for row in by_kind[INDEX]]
    for one in index:
        findings.add_reported(one.reported)
    seen = store_seen(root, looked, claimed, pieces, index)
    listed = [
        {"store": 0, "topic": topic_bytes(topic), "queue_id": queue_id, "begin": LISTED}
        for topic, queue_id in looked.queues
    ]
    queues = outcomes(queues_check({0: seen}), [*listed, *by_kind[QUEUE]], "topic", "queue_id")
    keys = outcomes(keys_check({0: seen}), [row for row in rows if row["kind"] in (KEYS, ENTRIES)], "place")
    missing = NONE_MISSING
    for outcome in (*queues, *keys):
        assert outcome.error == ""
        findings.add_reported(outcome.reported)
        missing = missing.plus(outcome.missing)
    findings.add_reported(
        check_places(root, FinalCheck(OWN, seen.log, claimed, missing, seen.index_is_whole))
    )
    size = seen.log.end_offset - seen.log.begin_offset
    return state_of(findings).value, seen.log.messages, size, list(findings)


def outcomes(check: Check, rows: list[Row], *owner: str) -> Iterator[CheckOutcome]:
    names = ["kind", "store", "topic", "queue_id", "place", "begin", "data", "times"]
    ordered = sorted(rows, key=lambda row: [row[name] for name in (*owner, "begin")])
    batch = pa.RecordBatch.from_pylist([{name: row.get(name) for name in names} for row in ordered])
    for found in check(iter([batch])) if rows else ():
        for row in found.to_pylist():
            yield pickle.loads(row["outcome"])


def compare(root: Path, bytes_per_task: int) -> None:
    alone = verify(root, OWN)
    state, messages, size, findings = in_parts(root, bytes_per_task)
    assert sorted(map(str, findings)) == sorted(map(str, alone.findings))
    assert (state, messages, size) == (alone.state.value, alone.messages, alone.bytes)


@pytest.mark.parametrize("bytes_per_task", [5_000, 32 * 1024, 1 << 30])
def test_a_store_without_damage_is_what_it_is(stores: list[Path], bytes_per_task: int) -> None:
    for root in stores:
        compare(root, bytes_per_task)


def damaged(root: Path, place: Path, chance: random.Random) -> None:
    """Damage some files of a copy of a store: bits are flipped, stretches are zeroed, files are cut off."""
    shutil.copytree(root, place)
    folders = ("commitlog", "consumequeue", "index", "config")
    files = sorted(path for folder in folders for path in (place / folder).rglob("*") if path.is_file())
    files += [layout.checkpoint_path(place)]
    for path in chance.choices(files, k=chance.randint(1, 3)):
        if not path.exists():
            continue
        data = bytearray(path.read_bytes())
        used = max(len(data.rstrip(b"\0")), 1)
        at = chance.randrange(used)
        if path.parent.name == "index" and at < HEADER_SIZE:
            continue  # one machine goes by the place in the log that the header says, and so astray
        kind = chance.randrange(8)
        if kind < 4:
            data[at] ^= 1 << chance.randrange(8)
        elif kind < 6:
            length = min(chance.choice([1, 20, 400, 5_000]), len(data) - at)
            data[at : at + length] = bytes(length)
        elif kind == 6:
            data[at:] = bytes(len(data) - at)
        elif len(list(path.parent.iterdir())) > 1 and path.parent.name == "commitlog":
            path.unlink()
            continue
        path.write_bytes(data)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.sampled_from([3_000, 10_000, 32 * 1024, 1 << 30]))
def test_a_damaged_store_is_what_it_is(  # takes some 5 s: each example is checked twice
    stores: list[Path], tmp_path_factory: pytest.TempPathFactory, seed: int, bytes_per_task: int
) -> None:
    chance = random.Random(seed)
    place = tmp_path_factory.mktemp("damaged") / "store"
    damaged(chance.choice(stores), place, chance)
    compare(place, bytes_per_task)
    shutil.rmtree(place)


def test_a_remote_store_is_read_once_by_the_window_and_copied_nowhere(
    stores: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "store"
    damaged(stores[0], place, random.Random(3))
    files = [path for path in place.rglob("*") if path.is_file()]
    CountedFiles.start({f"lake/a/{path.relative_to(place)}": path.read_bytes() for path in files})
    monkeypatch.setattr(log_end, "BLANK_SIZE_MAX", 1_000)
    monkeypatch.setattr(remote, "BLOCK", 8_192)
    monkeypatch.setattr(remote_files, "BLOCK", 2_000)  # queues' files are small, the others are not
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    state, messages, size, findings = in_parts(path_of("counted://lake/a"), 10_000)
    alone = verify(place, OWN)
    assert (state, messages, size) == (alone.state.value, alone.messages, alone.bytes)
    told = sorted(re.sub("counted:/+lake/a", str(place), str(one)) for one in findings)
    assert told == sorted(map(str, alone.findings)) and told
    log = {path: size for path, size in CountedFiles.fetched.items() if "/commitlog/" in path}
    whole = sum(path.stat().st_size for path in layout.commitlog_dir(place).iterdir())
    assert len(log) == 3 and sum(log.values()) < 2 * whole  # parts of 10,000 bytes share blocks of 8,192
