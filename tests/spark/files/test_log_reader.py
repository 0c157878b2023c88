"""The reader without Spark, then the same through a real session."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.counted import CountedFiles
from tests.kit.stores import as_rows
from tests.log_rows import plain_rows

from cometmq.errors import StoreDamaged
from cometmq.format import layout
from cometmq.format.record import Record, encode, encode_blank
from cometmq.kernels import plain
from cometmq.spark.files.log_end import LogEnd
from cometmq.spark.files.log_reader import PROBE_BYTES, LogReader, lies_outside
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import opened, path_of
from cometmq.spark.files.splits import FilePiece, log_files, splits
from cometmq.spark.options import ReadOptions
from cometmq.spark.schema import COLUMNS
from cometmq.store import MessageStore

STORE_TIME_AT = 56
"""Of a record whose hosts are IPv4."""


def read(options: ReadOptions) -> list[pa.RecordBatch]:
    reader = LogReader(options, options.columns or tuple(COLUMNS))
    return [batch for partition in reader.partitions() for batch in reader.read(partition)]


def offsets(batches: list[pa.RecordBatch]) -> list[int]:
    return [row["physical_offset"] for row in as_rows(batches)]


@pytest.mark.parametrize(
    "store",
    [
        "store-clean",
        "store-killed",
        "store-killed-recovered",
        "store-extended",
        "store-property-crc",
        "store-light",
    ],
)
def test_every_column_of_a_real_store_is_what_the_format_says(golden: Mapping[str, Path], store: str) -> None:
    assert as_rows(read(ReadOptions((golden[store],)))) == list(plain_rows(golden[store]))


@pytest.fixture
def torn(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """Provide a store with damage in the middle and its first file's tail, and a torn record at its end."""
    store = Path(copytree(golden["store-clean"], tmp_path / "torn"))
    first, last = log_files(store)
    rows = [row["physical_offset"] for row in plain_rows(store)]
    for offset, lost in (
        (rows[500], b"\xff" * 60),
        (rows[900], bytes(5_000)),
        (LogEnd(opened(first.path, first.size, 0), first).position - 30, b"\xff" * 38),
    ):
        with first.path.open("r+b") as file:
            file.seek(offset)
            file.write(lost)
    with last.path.open("r+b") as file:
        file.truncate(rows[-1] - last.base_offset + 40)
        file.truncate(last.size)
    assert len(list(plain_rows(store))) < len(rows) - 3
    return store


@pytest.mark.timeout(600)  # some thousand small reads, on a machine that is busy
@pytest.mark.parametrize("store", ["store-killed", "torn"])
def test_every_column_is_the_same_in_any_number_of_partitions(
    golden: Mapping[str, Path], torn: Path, store: str
) -> None:
    path = torn if store == "torn" else golden[store]
    expected = pa.Table.from_batches(read(ReadOptions((path,))))
    assert as_rows(expected.to_batches()) == list(plain_rows(path))
    total = sum(file.written for file in log_files(path))
    for count in range(1, 65):
        options = ReadOptions((path,), bytes_per_partition=-(-total // count))
        assert len(LogReader(options, ("topic",)).partitions()) == count
        assert pa.Table.from_batches(read(options)).equals(expected), f"in {count} partitions"


def test_bodies_are_those_that_were_sent(golden: Mapping[str, Path], golden_facts: Mapping[str, Any]) -> None:
    batches = read(ReadOptions((golden["store-clean"],), columns=("unique_id", "body")))
    stored = {row["unique_id"]: hashlib.sha1(row["body"]).hexdigest() for row in as_rows(batches)}
    sent = {message["msgId"]: message["bodySha1"] for message in golden_facts["store-clean"]["acked"]}
    assert {unique_id: stored.get(unique_id) for unique_id in sent} == sent


def test_topic_and_time_choose_records(golden: Mapping[str, Path]) -> None:
    rows = list(plain_rows(golden["store-clean"]))
    begin, end = rows[len(rows) // 3]["store_time"], rows[-len(rows) // 3]["store_time"]
    batches = read(
        ReadOptions(
            (golden["store-clean"],),
            topics=frozenset({"GoldenA", "GoldenB"}),
            starting_time=begin,
            ending_time=end,
        )
    )
    expected = [
        row["physical_offset"]
        for row in rows
        if row["topic"] in {"GoldenA", "GoldenB"} and begin <= row["store_time"] < end
    ]
    assert 0 < len(expected) < len(rows)
    assert offsets(batches) == expected


@pytest.mark.parametrize("limit", [1, 700, 1_000_000])
def test_a_limit_gives_the_first_records_in_one_partition(golden: Mapping[str, Path], limit: int) -> None:
    expected = [row["physical_offset"] for row in plain_rows(golden["store-clean"])]
    options = ReadOptions((golden["store-clean"],), limit=limit, bytes_per_partition=10_000)
    assert offsets(read(options)) == expected[:limit]
    assert len(LogReader(options, ("topic",)).partitions()) == 1


def test_a_read_without_partitions_gives_nothing(golden: Mapping[str, Path]) -> None:
    assert list(LogReader(ReadOptions((golden["store-clean"],)), ("topic",)).read(None)) == []


@pytest.fixture
def damaged(golden: Mapping[str, Path], tmp_path: Path) -> tuple[Path, int]:
    """Provide a store with one record overwritten, and its physical offset."""
    store = tmp_path / "damaged"
    copytree(golden["store-clean"], store)
    row = list(plain_rows(store))[1000]
    file = log_files(store)[0]
    with file.path.open("r+b") as opened:
        opened.seek(row["physical_offset"] - file.base_offset)
        opened.write(b"\xff" * 60)
    return store, row["physical_offset"]


def test_damage_costs_the_damaged_record_alone(
    damaged: tuple[Path, int], golden: Mapping[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    store, lost = damaged
    expected = [
        row["physical_offset"] for row in plain_rows(golden["store-clean"]) if row["physical_offset"] != lost
    ]
    assert offsets(read(ReadOptions((store,)))) == expected
    assert f"(physical offset {lost})" in caplog.text


def test_a_damaged_store_time_costs_no_record(golden: Mapping[str, Path], tmp_path: Path) -> None:
    store = tmp_path / "damaged"
    copytree(golden["store-clean"], store)
    expected = [row["physical_offset"] for row in plain_rows(store)]
    file = log_files(store)[0]
    with file.path.open("r+b") as opened:
        opened.seek(expected[1000] - file.base_offset + STORE_TIME_AT)
        opened.write(b"\xff")
    assert offsets(read(ReadOptions((store,)))) == expected


def test_failfast_names_file_offset_extent_and_remedy(damaged: tuple[Path, int]) -> None:
    store, lost = damaged
    with pytest.raises(
        StoreDamaged, match=rf"{lost}\) \d+ bytes up to the next record are damaged; mode PERMISSIVE"
    ):
        read(ReadOptions((store,), fail_on_damage=True))


def test_failfast_reads_all_that_a_killed_broker_acknowledged(
    golden: Mapping[str, Path], golden_facts: Mapping[str, Any]
) -> None:
    options = ReadOptions((golden["store-killed"],), columns=("offset_id",), fail_on_damage=True)
    found = {row["offset_id"] for row in as_rows(read(options))}
    assert {message["offsetMsgId"] for message in golden_facts["store-killed"]["acked"]} <= found


def test_a_missing_file_is_told(
    golden: Mapping[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    copytree(golden["store-clean"], store)
    (store / "commitlog" / f"{1 << 20:020d}").rename(store / "commitlog" / f"{3 << 20:020d}")
    read(ReadOptions((store,), columns=("topic",)))
    assert "the CommitLog has no file with the offsets 1048576 to 3145728" in caplog.text
    with pytest.raises(StoreDamaged, match="1048576 to 3145728; mode PERMISSIVE skips it"):
        read(ReadOptions((store,), fail_on_damage=True))


def test_spark_counts_by_topic_what_the_plain_reader_counts(
    spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    frame = (
        spark.read.format("rocketmq").option("maxBytesPerPartition", 100_000).load(str(golden["store-clean"]))
    )
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert counts == Counter(row["topic"] for row in plain_rows(golden["store-clean"]))
    assert frame.rdd.getNumPartitions() > 10


def test_spark_gets_every_value(spark: SparkSession, golden: Mapping[str, Path]) -> None:
    frame = spark.read.format("rocketmq").load(str(golden["store-clean"]))
    assert as_rows(frame.toArrow().to_batches()) == list(plain_rows(golden["store-clean"]))


@pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy
def test_stores_are_read_together(spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path) -> None:
    names = ("store-clean", "store-killed")
    for number, name in enumerate(names):
        Path(tmp_path, f"broker-{number}").mkdir()
        Path(tmp_path, f"broker-{number}", "store").symlink_to(golden[name])
    expected = sorted(
        (row["store_host"], row["offset_id"]) for name in names for row in plain_rows(golden[name])
    )
    reader = spark.read.format("rocketmq").option("columns", "store_host,offset_id")
    for given in ([str(golden[name]) for name in names], f"{tmp_path}/broker-*/store"):
        assert sorted(tuple(row) for row in reader.load(given).collect()) == expected


def test_a_limit_is_one_of_all_stores(golden: Mapping[str, Path]) -> None:
    first, second = golden["store-clean"], golden["store-killed"]
    rows = [row["physical_offset"] for store in (first, second) for row in plain_rows(store)]
    limit = sum(1 for _ in plain_rows(first)) + 7
    assert offsets(read(ReadOptions((first, second), limit=limit))) == rows[:limit]


def test_a_users_schema_chooses_columns(spark: SparkSession, golden: Mapping[str, Path]) -> None:
    reader = spark.read.format("rocketmq").schema("tags string, queue_offset bigint").option("limit", 5)
    assert [tuple(row) for row in reader.load(str(golden["store-clean"])).collect()] == [
        (row["tags"], row["queue_offset"]) for row in list(plain_rows(golden["store-clean"]))[:5]
    ]


def test_records_become_parquet_and_come_back(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    frame = spark.read.format("rocketmq").option("topic", "GoldenA").load(str(golden["store-clean"]))
    frame.write.parquet(str(tmp_path / "parquet"))
    again = spark.read.parquet(str(tmp_path / "parquet")).orderBy("physical_offset")
    assert as_rows(again.toArrow().to_batches()) == as_rows(frame.toArrow().to_batches())


def test_damage_fails_the_query_with_its_place(spark: SparkSession, damaged: tuple[Path, int]) -> None:
    store, lost = damaged
    with pytest.raises(PythonException, match=rf"physical offset {lost}\)"):
        spark.read.format("rocketmq").option("mode", "FAILFAST").load(str(store)).count()


def test_an_empty_store_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "broker-a" / "commitlog").mkdir(parents=True)
    with MessageStore.open(tmp_path / "broker-b"):
        pass
    for path in ("broker-a", "broker-b", "broker-*"):
        assert spark.read.format("rocketmq").load(str(tmp_path / path)).count() == 0


PUSHES = "spark.sql.python.filterPushdown.enabled"
CLAUSED = "topic,queue_id,queue_offset,physical_offset,unique_id,tags,keys,store_time"
CLAUSES = (
    "topic IN ('GoldenA', 'GoldenB') AND queue_id = 2 AND queue_offset BETWEEN 3 AND 9",
    "tags = 'TagA' AND topic = 'GoldenA'",
    "tags IS NULL",
    "physical_offset >= 700000 AND physical_offset < 1100000 AND NOT tags = 'TagB'",
    "store_time > '{time}' AND store_time <= '{later}'",
    "store_time >= '{time}' AND array_contains(keys, '{key}')",
    "unique_id = '{id}'",
    "tags = 'TagA' AND tags = 'TagB'",
)


@pytest.mark.timeout(600)  # Spark plans a query for each clause
def test_where_clauses_give_what_they_gave_without_being_pushed(
    spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    rows = list(plain_rows(golden["store-clean"]))
    one = rows[1_300]
    begin = datetime.fromtimestamp(one["store_time"] / 1000, UTC)
    later = begin + timedelta(milliseconds=1_500.5)
    key = next(row["keys"][0] for row in reversed(rows) if row["keys"])
    asked = [clause.format(time=begin, later=later, key=key, id=one["unique_id"]) for clause in CLAUSES]
    frame = spark.read.format("rocketmq").option("columns", CLAUSED).load(str(golden["store-clean"]))
    every = frame.select("physical_offset", f.array(*map(f.expr, asked))).collect()
    for number, clause in enumerate(asked):
        expected = [offset for offset, holds in every if holds[number]]
        found = frame.where(clause).select("physical_offset").collect()
        assert sorted(row["physical_offset"] for row in found) == expected, clause
        assert expected or clause == asked[-1], f"{clause} tests nothing"


@pytest.mark.parametrize("pushes", [True, False])
def test_spark_need_not_apply_again_what_the_reader_applies(
    spark: SparkSession, golden: Mapping[str, Path], capsys: pytest.CaptureFixture[str], pushes: bool
) -> None:
    spark.conf.set(PUSHES, str(pushes).lower())
    try:
        frame = spark.read.format("rocketmq").load(str(golden["store-clean"]))
        frame.where("topic = 'GoldenA' AND tags = 'TagA' AND queue_offset < 7").explain()
    finally:
        spark.conf.set(PUSHES, "true")
    plan = capsys.readouterr().out
    assert [text in plan for text in ("GoldenA", "TagA", "< 7")] == [not pushes] * 3


def test_clauses_are_for_the_records_that_a_limit_leaves(
    spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    expected = sum(row["topic"] == "GoldenA" for row in list(plain_rows(golden["store-clean"]))[:50])
    frame = spark.read.format("rocketmq").option("limit", 50).load(str(golden["store-clean"]))
    assert frame.where("topic = 'GoldenA'").count() == expected < 50


def test_options_choose_by_tags_and_by_key(golden: Mapping[str, Path]) -> None:
    rows = list(plain_rows(golden["store-clean"]))
    key = next(row["keys"][0] for row in rows if row["keys"])
    for options, expected in (
        (ReadOptions((golden["store-clean"],), key=key), [row for row in rows if key in row["keys"]]),
        (
            ReadOptions((golden["store-clean"],), tags=frozenset({"TagA"})),
            [row for row in rows if row["tags"] == "TagA"],
        ),
    ):
        assert expected and offsets(read(options)) == [row["physical_offset"] for row in expected]


MIB = 1 << 20
HOST = bytes(8)
MINUTE = 60_000
HOUR = 60 * MINUTE
START = 1_700_000_000_000
BODY = bytes(60_000)
STORE = path_of("counted://lake/store")


def written(time_of: Callable[[int], int], files: int = 1, size: int = 16 * MIB) -> None:
    """Build a store whose record number n was stored at ``time_of(n)``."""
    made, number = dict[str, bytes | int](), 0
    for base in range(0, files * size, size):
        data = bytearray()
        while len(data) + len(BODY) + 200 < size:
            offset = base + len(data)
            data += encode(Record("T", BODY, b"", 0, number, offset, 0, 0, 1, HOST, time_of(number), HOST))
            number += 1
        data += encode_blank(size - len(data))
        made[f"lake/store/commitlog/{layout.offset_name(base)}"] = bytes(data.ljust(size, b"\0"))
    CountedFiles.start(made)


def pieces(size: int = 4 * MIB) -> list[FilePiece]:
    return [piece for split in splits(log_files(STORE), size) for piece in split]


def outside(piece: FilePiece, begin: int | None, end: int | None) -> bool:
    CountedFiles.start(CountedFiles.files)
    found = opened(piece.file.path, piece.file.size, piece.end)
    return lies_outside(found, piece, plain, RecordChoice(begin_time=begin, end_time=end))


def test_parts_before_and_behind_the_times_take_two_small_reads() -> None:
    written(lambda number: START + number * MINUTE)
    first, second, *_, last = pieces()
    between = (first, START + 9 * HOUR, START + 10 * HOUR)
    for piece, begin, end in ((first, START + 10 * HOUR, None), (second, None, START), between):
        assert outside(piece, begin, end)
        assert dict(CountedFiles.requests) == {"read": 2}
        assert CountedFiles.fetched.total() == 2 * PROBE_BYTES
    assert outside(last, START + 10 * HOUR, None)  # it has the BLANK, which must be found
    assert CountedFiles.requests.total() == 2
    assert outside(last, None, START)


def test_parts_within_the_times_are_read() -> None:
    written(lambda number: START + number * MINUTE)
    first, *others = pieces()
    far = START + 100 * HOUR
    for piece in (first, *others):
        for begin, end in ((None, None), (START, None), (START, far), (None, far)):
            assert not outside(piece, begin, end)
    assert not outside(first, START + 30 * MINUTE, None)  # it ends behind that
    assert not outside(first, START + 69 * MINUTE, None)  # it ends a minute before: clocks are set
    assert outside(first, START + 71 * MINUTE, None)


def test_a_part_over_whose_time_the_clock_was_set_is_read() -> None:
    written(lambda number: START + (number if number < 40 else number - 300) * MINUTE)
    first, second, *_ = pieces()
    assert not outside(first, None, START - HOUR)
    assert outside(second, START, None)


def test_a_part_without_a_record_at_its_ends_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written(lambda number: START + number)
    monkeypatch.setattr("cometmq.spark.files.log_reader.PROBE_BYTES", 40_000)
    assert not outside(pieces()[1], None, START - HOUR)


def test_a_reader_gives_the_same_and_reads_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.spark.files.log_end.BLANK_SIZE_MAX", MIB)
    written(lambda number: START + number * MINUTE, files=2)
    rows = [(offset, time) for offset, time in rows_of(ReadOptions((STORE,)))]
    everything = CountedFiles.fetched.total()
    assert everything < 36 * MIB  # nothing is fetched behind a part, but its last record
    begin, end = START + 10 * MINUTE, START + 20 * MINUTE
    expected = [row for row in rows if begin <= row[1] < end]
    assert len(expected) == 10
    CountedFiles.start(CountedFiles.files)
    assert rows_of(ReadOptions((STORE,), starting_time=begin, ending_time=end)) == expected
    assert CountedFiles.fetched.total() < everything // 3


def rows_of(options: ReadOptions) -> list[tuple[int, int]]:
    reader = LogReader(options._replace(bytes_per_partition=4 * MIB), ("physical_offset", "store_time"))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [
        (row["physical_offset"], round(row["store_time"].timestamp() * 1000))
        for batch in batches
        for row in batch.to_pylist()
    ]
