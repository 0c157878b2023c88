"""Stores behind fsspec: in memory, and on a server that speaks S3, which Spark's executors ask."""

import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

import pytest
from fsspec import config, filesystem
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from pyspark.sql import DataFrameReader, SparkSession
from tests.kit.pages import ROOT, blocks_of
from tests.kit.stores import as_rows
from tests.large_bucket import LargeBucket
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.format.record import Record, encode
from cometmq.spark.files import remote
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.remote import RemotePath, Window, path_of, spark_path
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.export.export import export
from cometmq.spark.options import BYTES_PER_PARTITION, ReadOptions, parse
from cometmq.store.settings import StoreSettings

COLUMNS = ("physical_offset", "topic", "body")
MIB = 1 << 20
GIB = 1 << 30
TEN_TIB_FILES = 10_240
PLAN_S_MAX = 60
"""It takes seconds; what is judged closely are the requests that it makes."""


class Stored(NamedTuple):
    """A store at two places."""

    local: Path
    address: RemotePath


@pytest.fixture
def stored(golden: Mapping[str, Path], tmp_path: Path) -> Iterator[Stored]:
    """Provide a store with damage in the middle of its first file, and its copy in fsspec's memory."""
    local = Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))
    with log_files(local)[0].path.open("r+b") as file:
        file.seek(400_000)
        file.write(bytes(50_000))
    memory = filesystem("memory")
    memory.put(str(local), "/stores/broker-a", recursive=True)
    yield Stored(local, address("memory://stores/broker-a"))
    memory.rm("/stores", recursive=True)


def address(text: str) -> RemotePath:
    path = path_of(text)
    assert isinstance(path, RemotePath)
    return path


def read(path: Path, split: int) -> list[dict[str, object]]:
    reader = LogReader(ReadOptions((path,), bytes_per_partition=split), COLUMNS)
    return as_rows([batch for part in reader.partitions() for batch in reader.read(part)])


def test_addresses_are_told_from_paths() -> None:
    for text in ("store", "/a/store", "file:///a/b%20c", "C:/x", "a:b"):
        assert not isinstance(path_of(text), RemotePath)
    assert path_of("file:///a/b%20c") == Path("/a/b c")
    assert path_of("S3://Bucket/A") == path_of("s3://Bucket/A") and str(path_of("S3A://b")) == "s3a://b"
    path = path_of(Path("s3://bucket/a/store"))
    assert str(path) == str(path.absolute()) == "s3://bucket/a/store"
    assert path_of(path) is path and path == path_of("s3://bucket/a/store/")
    assert str(path / "commitlog") == "s3://bucket/a/store/commitlog" and (path / "x").parent == path
    assert pickle.loads(pickle.dumps(path / "x")) == path / "x"
    assert str(path_of("hdfs:///a/store")) == "hdfs://default/a/store"
    assert parse({"path": "s3://bucket/store"}).paths == (path_of("s3://bucket/store"),)


def test_spark_gets_names_as_they_are() -> None:
    assert spark_path(Path("/a b/log=1/100%")) == "file:///a b/log=1/100%"


def test_what_cannot_be_reached_is_told() -> None:
    with pytest.raises(SettingsError, match="Protocol not known"):
        log_files(address("nothing://a/b"))
    with pytest.raises(SettingsError, match="memory://nowhere does not exist"):
        log_files(address("memory://nowhere"))


def test_a_remote_store_is_read_like_a_local_one(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    files, there = log_files(stored.local), log_files(stored.address)
    assert [(file.base_offset, file.size) for file in there] == [
        (file.base_offset, file.size) for file in files
    ]
    monkeypatch.setattr(remote, "BLOCK", 20_000)
    for split in (100_000, 1 << 30):
        rows = read(stored.local, split)
        assert read(stored.address, split) == rows and len(rows) > 2_000


def test_a_window_keeps_only_what_was_needed_last(stored: Stored) -> None:
    (file, _), data = log_files(stored.address), log_files(stored.local)[0].path.read_bytes()
    assert isinstance(file.path, RemotePath)
    window = Window(file.path, file.size, 300_000, block=10_000)
    for begin in range(0, 300_000, 7_000):
        assert window.read(begin, begin + 9_000) == data[begin : begin + 9_000]
    assert window.fetched < 330_000  # each byte once
    assert window.read(50_000, 60_000) == data[50_000:60_000]
    assert window.peek(10, 20) == data[10:20]
    assert window.read(file.size - 5, file.size + 5) == data[-5:]


CHILD = """
import pickle, resource, sys
from pathlib import Path
from cometmq import kernels
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.splits import log_files, splits, within
from cometmq.spark.jobs.find.find_parts import WalkedPart, look_up, walk
from cometmq.spark.jobs.rebuild.entries import Rules, scanned
from cometmq.spark.jobs.report.measures import piece_measures
from cometmq.spark.jobs.verify.look import Claims, list_store
from cometmq.spark.jobs.verify.rows import LogPart, read_rows
from cometmq.spark.options import ReadOptions
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.store.offline.find import FindQuery

store = Path(sys.argv[1])
rules = Rules(Crc.BODY, DelayLevels.parse("1s"), True)
query = FindQuery(topic="T", begin_time=2)
(pieces,) = splits(log_files(store), 1 << 40)
kernels.load_if_possible()
reader = LogReader(ReadOptions((store,), fail_on_damage=False), ("topic",))
list(reader.read_pieces(within(pieces, 0, 100)))  # Arrow reserves address space when it is first used
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)

print(sum(batch.num_rows for batch in reader.read_pieces(pieces)))
print(sum(batch.num_rows for batch in piece_measures("", pieces)))
seen = [pickle.loads(row["data"]) for row in scanned(pieces, rules, 9) if row["kind"] == "piece"]
print([len(piece.segments) for piece in seen])
listing = list_store(store, None)
print(Claims(0, store, listing.settings, listing.queues).end())
rows = read_rows(LogPart(0, pieces, rules, 9))
print(sum(batch.column("kind").to_pylist().count("queue") for batch in rows))
look_up(store, query, 9, use_index=False)
(found,) = walk(WalkedPart(0, pieces, query, Crc.BODY, rules.delay_levels, 9))
print(found.column("offset").to_pylist(), found.column("error").to_pylist())
"""


def test_tasks_read_large_files_in_little_address_space(tmp_path: Path) -> None:
    path, last = tmp_path / "commitlog" / layout.offset_name(0), GIB - 1000
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(GIB)
        for place in (0, GIB // 2, last):
            record = Record("T", b"body", b"", 0, 0, place, 0, 0, 1, bytes(8), 2, bytes(8))
            os.pwrite(file.fileno(), encode(record), place)
    for queue_id in range(80):
        queue = layout.consume_queue_dir(tmp_path, "T", queue_id) / layout.offset_name(0)
        queue.parent.mkdir(parents=True)
        queue.touch()
        os.truncate(queue, StoreSettings().queue_file_size)
    run = subprocess.run([sys.executable, "-c", CHILD, tmp_path], capture_output=True, text=True, check=False)
    found = f"[0, {GIB // 2}, {last}] [None, None, None]"
    assert run.stdout.splitlines() == ["3", "3", "[3]", "0", "3", found], run.stderr


class Refuses(BaseHTTPRequestHandler):
    """Refuses everybody in the words of S3."""

    def do_GET(self) -> None:
        answer = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize(
    ("who", "error"), [({}, "Unable to locate cred"), ({"key": "a", "secret": "b"}, "Denied")]
)
def test_who_is_not_let_in_is_told_what_to_set(
    who: dict[str, str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever).start()
        monkeypatch.setitem(
            config.conf, "s3", {"endpoint_url": f"http://127.0.0.1:{server.server_port}", **who}
        )
        with pytest.raises(SettingsError, match=f"^s3://lake/store.*{error}.*: set AWS_ACCESS_KEY_ID"):
            log_files(address("s3://lake/store"))
        server.shutdown()


def test_others_than_s3_are_told_where_to_say_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not you")

    monkeypatch.setattr(type(filesystem("memory")), "info", refuse)
    with pytest.raises(SettingsError, match=r"^memory://a/b: not you: set credentials in ~/\.config/fsspec"):
        address("memory://a/b").length()


@pytest.mark.timeout(600)  # four jobs of Spark, on a store behind a server that is as slow as Python
@pytest.mark.usefixtures("s3")
def test_what_the_guide_shows_of_s3_is_what_happens(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.sparkContext.master == "local[2]"  # the one that the page's session() finds
    store = tmp_path / "store"
    shutil.copytree(golden["store-clean"], store, ignore=shutil.ignore_patterns("timer*"))
    filesystem("s3").put(str(store), "lake/broker-a", recursive=True)
    monkeypatch.chdir(tmp_path)
    blocks = list(blocks_of((ROOT / "docs" / "guide" / "spark-remote.md").read_text()))
    shown = {block.line: block.printed or "" for block in blocks}
    names: dict[str, object] = {"__name__": "page"}
    printed: dict[int, str] = {}
    for block in blocks:
        with redirect_stdout(StringIO()) as out:
            exec(compile(block.code, f"the block at line {block.line}", "exec"), names)
        printed[block.line] = out.getvalue()
    assert printed == shown


@pytest.mark.timeout(600)  # three jobs of Spark, behind the same server
@pytest.mark.usefixtures("s3")
def test_a_second_export_reads_only_what_is_new(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = DomainDispatcherApplication.__call__

    def counted(self: DomainDispatcherApplication, environ: dict[str, Any], *start: Any) -> Any:
        asked.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}")
        return answer(self, environ, *start)

    monkeypatch.setattr(DomainDispatcherApplication, "__call__", counted)
    files = sorted((golden["store-clean"] / "commitlog").iterdir())
    exported: Counter[str] = Counter()
    for file in files:
        filesystem("s3").put(str(file), f"lake/grows/commitlog/{file.name}")
        exported.update(export(spark, "s3://lake/grows", tmp_path / "exported").messages)
    assert exported == Counter(row["topic"] for row in plain_rows(golden["store-clean"]))
    asked.clear()
    assert export(spark, "s3://lake/grows", tmp_path / "exported").messages == {}
    finished, last = ([one for one in asked if one.startswith("GET") and file.name in one] for file in files)
    listed = [one for one in asked if "list-type" in one]
    assert (finished, len(listed)) == ([], 1) and len(last) <= 4


@pytest.mark.timeout(600)  # Spark's start, on a machine that is busy
@pytest.mark.usefixtures("s3")
def test_spark_plans_ten_tebibytes_on_one_listing_in_seconds(
    spark: SparkSession, golden: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = log_files(golden["store-clean"])[0]
    names = [f"store/commitlog/{layout.offset_name(number * GIB)}" for number in range(TEN_TIB_FILES)]
    bucket = LargeBucket("ten-tib", dict.fromkeys(names, GIB), first.path.read_bytes())
    answer = DomainDispatcherApplication.__call__

    def answered(self: DomainDispatcherApplication, environ: dict[str, Any], start: Any) -> Any:
        return bucket(environ, start) if bucket.has(environ["PATH_INFO"]) else answer(self, environ, start)

    monkeypatch.setattr(DomainDispatcherApplication, "__call__", answered)
    rows = spark.read.format("rocketmq").option("columns", "physical_offset")
    assert plan_seconds(rows, bucket) < PLAN_S_MAX
    some = rows.load(bucket.address).where(f"physical_offset < {MIB // 2}")
    expected = [row["physical_offset"] for row in plain_rows(golden["store-clean"])]
    assert sorted(row[0] for row in some.collect()) == [one for one in expected if one < MIB // 2]
    assert set(bucket.sent) == {names[0]} and bucket.sent.total() <= MIB  # of a single task's file


def plan_seconds(rows: DataFrameReader, bucket: LargeBucket) -> float:
    """Time how Spark plans a read of ten tebibytes, and count what it asks for."""
    bucket.requests.clear()
    began = perf_counter()
    tasks = rows.load(bucket.address).rdd.getNumPartitions()
    seconds = perf_counter() - began
    assert tasks == TEN_TIB_FILES * GIB // BYTES_PER_PARTITION
    assert (dict(bucket.requests), bucket.sent.total()) == ({"list": 11}, 0)
    return seconds
