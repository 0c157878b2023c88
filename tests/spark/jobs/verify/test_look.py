"""The first and last looks at a store; ``test_checks`` compares what comes of them."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from cometmq.format import layout
from cometmq.spark.jobs.piece_scan import Blank
from cometmq.spark.jobs.verify.log import Kept, LogSeen, LostStretch
from cometmq.spark.jobs.verify.look import Claims, FinalCheck, check_places, claims_batch, list_store
from cometmq.store.directory import StoreDirectory
from cometmq.store.log.log_scan import NO_RECORD
from cometmq.store.verify.keys import NONE_MISSING

FILE = 1 << 20


def test_a_look_tells_what_there_is(golden: Mapping[str, Path], tmp_path: Path) -> None:
    store = Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))
    last = layout.commitlog_path(store, FILE)
    used = len(last.read_bytes().rstrip(b"\0"))
    os.truncate(last, used)
    os.truncate(last, FILE)
    looked = list_store(store, None)
    assert looked.was_closed and looked.index_is_whole and looked.reported.kept == []
    assert [(file.base_offset, file.size) for file in looked.files] == [(0, FILE), (FILE, FILE)]
    assert looked.files[0].written == FILE > looked.files[1].written >= used
    queues = layout.consume_queues_dir(store)
    assert len(looked.queues) == sum(path.is_dir() for path in queues.glob("*/*"))
    assert [path.parent for path, _ in looked.index_files] == [layout.index_dir(store)] * len(
        looked.index_files
    )
    assert (looked.log_begin, looked.recovered_from(77)) == (0, 0)
    layout.abort_path(store).touch()
    opened = list_store(store, None)
    assert not opened.was_closed and opened.recovered_from(77) == 77
    assert [finding.path.name for finding in opened.reported.kept] == ["abort"]


def test_queues_claim_the_end_of_their_last_record(golden: Mapping[str, Path], tmp_path: Path) -> None:
    store = golden["store-clean"]
    looked = list_store(store, None)
    claims = [Claims(4, store, looked.settings, [queue]) for queue in looked.queues]
    with StoreDirectory(store) as opened:
        ends = [queue.physical_end(2 * FILE) for queue in opened.queues([])]
    assert [claim.end() for claim in claims] == ends
    (batch,) = claims_batch(claims[0])
    assert batch.to_pylist() == [{"store": 4, "end": ends[0], "error": ""}]
    (batch,) = claims_batch(claims[0]._replace(root=tmp_path / "nowhere"))
    assert "no such directory" in batch.to_pylist()[0]["error"]


def test_damage_is_given_its_reason(golden: Mapping[str, Path], tmp_path: Path) -> None:
    store = Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))
    with layout.commitlog_path(store, 0).open("r+b") as file:
        file.seek(8_161 + 100)
        file.write(b"\xff\xfe")
        file.seek(100_000)
        file.write(bytes(5_000))
    lost = [
        LostStretch(8_161, 8_586),
        LostStretch(100_500, 101_000),
        LostStretch(200_000, FILE, "as was told"),
    ]
    damaged = [(one.begin, one.end) for one in lost]
    seen = LogSeen(0, 2 * FILE, damaged, Kept([0], [FILE]), 1, 2**62, lost, [Blank(FILE - 10, 4)], 0)
    verdict = FinalCheck(list_store(store, None).settings, seen, 0, NONE_MISSING, index_is_whole=True)
    found = check_places(store, verdict).kept
    assert [(one.position, one.size) for one in found[:3]] == [
        (8_161, 425),
        (100_500, 500),
        (200_000, FILE - 200_000),
    ]
    assert found[0].what.startswith("BODYCRC") and [one.what for one in found[1:3]] == [
        NO_RECORD,
        "as was told",
    ]
    assert "the blank says 4 bytes, but 10 are left" in found[3].what
