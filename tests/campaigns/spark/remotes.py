"""A large store on S3: exported, archived, checked and searched by jobs whose driver is killed meanwhile.

    python -m tests.campaigns remotes [--size 2GiB] [--kills 2] [--seed N]

A store is made and copied to a server that speaks S3. The driver of each job (``driver.py``) is killed with
SIGKILL, alone or with its Java, and run again until it ends by itself. What is in the targets then must be
the store's messages, each once, by their number and by a digest of their content; what verify and find say
must be what one machine says of the local store. It also tells how much memory a worker took at most.
"""

import asyncio
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq
from fsspec import config, filesystem
from pyspark.sql.datasource import InputPartition
from tests.campaigns.kit.options import add_numbers, size_of
from tests.campaigns.kit.processes import start_python
from tests.campaigns.kit.progress import tell
from tests.campaigns.kit.spark_workers import spark_workers
from tests.campaigns.spark.remotes_driver import STORE, TARGET

from cometmq.format import layout
from cometmq.net.address import free_port
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.jobs.export.delta import files_of
from cometmq.spark.jobs.export.targets import target_of
from cometmq.spark.jobs.memory import peak_bytes
from cometmq.spark.options import ReadOptions
from cometmq.store import Message, MessageStore, StoreSettings
from cometmq.store.directory import StoreDirectory
from cometmq.store.offline.find import FindQuery, find
from cometmq.store.verify import verify

FILE_BYTES: Final = 128 << 20
COLUMNS: Final = ("physical_offset", "queue_id", "queue_offset", "unique_id", "tags", "body")
TOPICS: Final = 5
BODY_BYTES: Final = 900
AT_ONCE: Final = 2_000
LOOK_S: Final = 0.2
OWN: Final = StoreSettings(mapped_file_size_commit_log=FILE_BYTES)


class Content(NamedTuple):
    """Messages: how many, and the sum of the digests of all, which does not depend on their order."""

    messages: int
    digest: int

    def __str__(self) -> str:
        return f"{self.messages:,} messages, digest {self.digest:032x}"


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=2)
    parser.add_argument("--size", type=size_of, default="2GiB", help="of the store: 64MiB, 2GiB")


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    with tempfile.TemporaryDirectory(prefix="cometmq-remotes-") as folder:
        campaign = Campaign(Path(folder), random.Random(options.seed))
        return asyncio.run(campaign.run(options.size, options.kills))


class Campaign:
    """A store at two places, and jobs that are killed."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._store = folder / "store"
        self._chance = chance
        self._environment = {**os.environ, "FSSPEC_CONFIG_DIR": str(folder / "fsspec")}
        self._key = ""
        self._peak = 0

    async def run(self, size: int, kills: int) -> list[str]:
        """Run all jobs; return what is wrong."""
        await asyncio.to_thread(self._make, size)
        async with self._server():
            await asyncio.to_thread(self._upload, [path for path in self._store.rglob("*") if path.is_file()])
            tell("the store lies on S3")
            wrong = await self._filled(kills)
            wrong += await self._judged("verify", kills)
            wrong += await self._found(kills)
            await asyncio.to_thread(self._damage)
            wrong += await self._judged("verify of a damaged store", 0)
        print(f"a worker took {self._peak / (1 << 20):,.0f} MiB at most")
        return wrong

    def _make(self, size: int) -> None:
        with MessageStore.open(self._store, OWN) as store:
            number, log = 0, layout.commitlog_dir(self._store)
            while sum(path.stat().st_size for path in log.glob("0*")) <= size:
                self._key = f"k{number}"
                store.append_messages(self._message(number + n) for n in range(AT_ONCE))
                number += AT_ONCE
        tell(f"{number:,} messages are stored")

    def _message(self, number: int) -> Message:
        body = b"%016x" % number + self._chance.randbytes(BODY_BYTES // 3) + bytes(BODY_BYTES // 3 * 2)
        return Message(f"topic-{number % TOPICS}", body, tags=f"t{number % 3}", keys=(f"k{number}",))

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[None]:
        """Run a server that speaks S3, with a bucket, where this process and its children find it."""
        port = free_port()
        options = {"endpoint_url": f"http://127.0.0.1:{port}", "key": "anybody", "secret": "anything"}
        (self._folder / "fsspec").mkdir()
        (self._folder / "fsspec" / "s3.json").write_text(json.dumps({"s3": options}))
        config.set_conf_files(str(self._folder / "fsspec"), config.conf)
        server = await start_python("moto.server", "-H", "127.0.0.1", "-p", str(port), stderr=PIPE)
        assert server.stderr is not None
        while b"Running on" not in (line := await server.stderr.readline()):
            assert line, "the server ended"
        reading = asyncio.create_task(server.stderr.read())  # else it would wait for somebody to read
        try:
            filesystem("s3").mkdir("lake")
            yield
        finally:
            server.kill()
            await server.wait()
            await reading

    def _upload(self, files: Iterable[Path]) -> None:
        for path in files:
            there = f"{STORE.removeprefix('s3://')}/{path.relative_to(self._store)}"
            filesystem("s3").put_file(str(path), there)

    async def _filled(self, kills: int) -> list[str]:
        """Fill targets; return those whose content is not the store's."""
        last = max(path.name for path in layout.commitlog_dir(self._store).iterdir())
        expected = {False: content(self._rows(sys.maxsize)), True: content(self._rows(int(last)))}
        wrong = []
        for job in ("export", "delta", "archive"):
            result = await self._run(job, kills)
            target = target_of(TARGET.format(job), "")
            names = files_of(target) if job == "delta" else [file.name for file in target.files()]
            found = content(parquet_rows(TARGET.format(job), names))
            tell(f"{job}: {found} in {len(names)} files; {result.pop('messages')} of the last run")
            if found != expected[job == "archive"]:
                wrong.append(f"{job}: {found}, not {expected[job == 'archive']}")
        return wrong

    async def _judged(self, what: str, kills: int) -> list[str]:
        """Check the store; return whether that says something else than one machine."""
        (there,) = await self._run("verify", kills)
        alone = await asyncio.to_thread(verify, self._store)
        size = [alone.state.value, alone.messages, alone.bytes, alone.queues, alone.index_entries]
        own = [there[name] for name in ("state", "messages", "bytes", "queues", "index_entries")]
        findings = sorted([str(one.path).removeprefix(str(self._store)), one.what] for one in alone.findings)
        told = sorted([one["path"].removeprefix(STORE), one["what"]] for one in there["findings"])
        tell(f"{what}: {own}, {len(told)} findings")
        return [] if (own, told) == (size, findings) else [f"{what}: {own} {told}, not {size} {findings}"]

    async def _found(self, kills: int) -> list[str]:
        """Search the store by its index, and by walking its log."""
        there = await self._run("find", kills)
        with StoreDirectory(self._store) as store:
            alone = [hit.record.physical_offset for hit in find(store, FindQuery(key=self._key))]
        tell(f"find: {there}")
        return [] if there == [alone, alone] and alone else [f"find: {there}, not {alone} twice"]

    def _damage(self) -> None:
        """Damage some files, here and there."""
        folders = (layout.commitlog_dir(self._store), layout.consume_queues_dir(self._store))
        files = [min(path for path in folder.rglob("0*") if path.is_file()) for folder in folders]
        files.append(min(layout.index_dir(self._store).iterdir()))
        for path in files:
            used = len(path.read_bytes().rstrip(b"\0"))
            with path.open("r+b") as file:
                file.seek(self._chance.randrange(used // 2, used - 100))
                file.write(b"\xff" * 100)
        self._upload(files)

    async def _run(self, job: str, kills: int) -> Any:
        """Run a job to its end, after it was killed some times; return what it says."""
        began = time.monotonic()
        for _ in range(kills):
            driver = await self._driver(job)
            if await self._in_the_middle(job, driver):
                # Now its Java ends by itself, some moments later; or at once, with all that belongs to it.
                self._chance.choice((os.kill, os.killpg))(driver.pid, signal.SIGKILL)
            await driver.wait()
            if driver.returncode == 0:
                break
        driver = await self._driver(job)
        watching = asyncio.create_task(self._watch(driver))
        assert driver.stdout is not None
        printed = await driver.stdout.read()
        await asyncio.gather(driver.wait(), watching)
        assert driver.returncode == 0, f"{job} ended with {driver.returncode}"
        tell(f"{job} took {time.monotonic() - began:.0f} s, with its kills")
        return json.loads(printed.splitlines()[-1])

    async def _driver(self, job: str) -> Process:
        folder = self._folder / "drivers"
        return await start_python(
            "tests.campaigns.spark.remotes_driver", job, str(folder), self._key, environment=self._environment
        )

    async def _in_the_middle(self, job: str, driver: Process) -> bool:
        """Wait until a job is at work, and a while; return whether it is still there."""
        target = target_of(TARGET.format(job), "")
        before = await asyncio.to_thread(target.files)
        ended = asyncio.create_task(driver.wait())
        while job in ("export", "delta", "archive") and not ended.done():
            if await asyncio.to_thread(target.files) != before:
                break
            await asyncio.wait((ended,), timeout=LOOK_S)
        wait_s = (
            self._chance.uniform(0, 10)
            if job in ("export", "delta", "archive")
            else self._chance.uniform(10, 30)
        )
        await asyncio.wait((ended,), timeout=wait_s)
        return not ended.done()

    async def _watch(self, driver: Process) -> None:
        """Measure the workers of a driver until it ends."""
        ended = asyncio.create_task(driver.wait())
        while not ended.done():
            await asyncio.wait((ended,), timeout=LOOK_S)
            self._peak = max(self._peak, *await asyncio.to_thread(self._peaks), 0)

    def _peaks(self) -> list[int]:
        own = f"FSSPEC_CONFIG_DIR={self._folder}".encode()
        found = [0]
        for process in spark_workers():
            try:
                if own in (process / "environ").read_bytes():
                    found.append(peak_bytes(int(process.name)))
            except OSError:
                continue  # it has ended
        return found

    def _rows(self, end: int) -> Iterator[tuple[Any, ...]]:
        """Return the messages that lie before a CommitLog offset, from the local store."""
        reader = LogReader(ReadOptions((self._store,)), COLUMNS)
        for part in reader.partitions():
            for batch in reader.read(InputPartition(part.value)):
                rows = zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)
                yield from (row for row in rows if row[0] < end)


def parquet_rows(address: str, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Return the messages of some files of a target."""
    target = target_of(address, "")
    for name in names:
        with target.open(name) as opened:
            for batch in pq.ParquetFile(opened).iter_batches(columns=list(COLUMNS)):
                yield from zip(*(batch.column(column).to_pylist() for column in COLUMNS), strict=True)


def content(rows: Iterable[tuple[Any, ...]]) -> Content:
    """Return the number of messages, and their digest."""
    messages = digest = 0
    for row in rows:
        one = hashlib.blake2b(repr(row).encode(), digest_size=16).digest()
        messages, digest = messages + 1, (digest + int.from_bytes(one)) % (1 << 128)
    return Content(messages, digest)
