"""Losses of power on a real file system: what a disk held at a random moment is mounted and recovered.

The disk is a file, made a block device by a loop mount, with ext4 on it and on that a real broker under load.
Only what the file system has written to the file counts, not what the page cache shows of it. The file lies
on another file system, which is frozen while the file is copied: writes to the disk stop where they are, most
often in the middle of a sync, so that a copy is what the disk held at one moment. (What a drive may do by
itself, holding writes back or in another order, is the business of ``power_loss``.)
"""

import asyncio
import gc
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.kit import traffic
from tests.campaigns.storage.strategies import Strategy

from cometmq.format.record import decode
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.store import MessageStore
from cometmq.store.settings import from_properties

COPIES_OF_A_RUN: Final = 10
PAUSE_MAX_S: Final = 0.3
DISK_BYTES: Final = 256 << 20
HOST_BYTES: Final = 2 * DISK_BYTES
FLUSH_WINDOW_S: Final = 0.9
"""The commit and flush intervals: what is older is on the disk …"""
SLACK_S: Final = 3.0
"""… but for the time that syncs take on a busy machine."""


class Copy(NamedTuple):
    """What a disk held at a moment, and what had been acknowledged before it."""

    image: Path
    time_s: float
    acknowledged: dict[traffic.Place, traffic.Acknowledgement]


def why_not() -> str | None:
    """Return why this machine cannot do it, or None if it can."""
    if os.geteuid() != 0:
        return "loop mounts need root"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount", "fsfreeze") if shutil.which(tool) is None]
    if missing:
        return f"there is no {missing[0]}"
    with tempfile.TemporaryDirectory(prefix="cometmq-disk-") as folder:
        try:
            with _mounted(_make_disk(Path(folder) / "image", 16 << 20), Path(folder) / "mounted"):
                return None
        except subprocess.CalledProcessError as error:
            return f"a loop mount fails: {error.stderr.decode().strip()}"


def campaign(strategy: Strategy, seed: int, cycles: int) -> Iterator[traffic.Outcome]:
    """Recover ``cycles`` copies; gives what has been found after each.

    Raises AssertionError if a promise was broken.
    """
    chance = random.Random(seed)
    acknowledged = stored = done = 0
    ages = [0.0]
    while done < cycles:
        with tempfile.TemporaryDirectory(prefix="cometmq-disk-") as folder:
            for copy in _copies_of_a_run(strategy, chance, min(COPIES_OF_A_RUN, cycles - done), Path(folder)):
                found = _recover(strategy, copy, Path(folder) / "copy")
                lost = traffic.ages_of_lost(copy.acknowledged, found, copy.time_s)
                assert lost == [] or not strategy.is_sync, f"{strategy.name}: lost {len(lost)} messages"
                assert max(lost, default=0) < FLUSH_WINDOW_S + SLACK_S, (
                    f"{strategy.name}: not flushed in time"
                )
                acknowledged, stored, done = (
                    acknowledged + len(copy.acknowledged),
                    stored + len(found),
                    done + 1,
                )
                ages += lost
                yield traffic.Outcome(done, acknowledged, stored, len(ages) - 1, max(ages))


def _copies_of_a_run(strategy: Strategy, chance: random.Random, count: int, folder: Path) -> list[Copy]:
    """Run a broker under load on a disk, and copy the disk at random moments."""
    port, namesrv_port = free_port(), free_port()
    name_server = f"127.0.0.1:{namesrv_port}"
    settings = traffic.write_settings(strategy, folder)
    with (
        _mounted(_make_disk(folder / "host.img", HOST_BYTES), folder / "host") as host,
        _mounted(_make_disk(host / "disk.img", DISK_BYTES), folder / "disk") as disk,
        traffic.broker(disk / "store", settings, port, namesrv_port) as process,
    ):
        asyncio.run(traffic.make_topics(name_server))
        copies = asyncio.run(_copy_under_load(name_server, chance, count, host, folder))
        process.kill()
        process.wait(60)
    return copies


async def _copy_under_load(
    name_server: str, chance: random.Random, count: int, host: Path, folder: Path
) -> list[Copy]:
    acknowledged: dict[traffic.Place, traffic.Acknowledgement] = {}
    copies: list[Copy] = []
    sending = asyncio.create_task(
        traffic.send_all_the_time(
            name_server, chance.randrange(2**32), acknowledged, lambda: len(copies) == count
        )
    )
    for number in range(count):
        await asyncio.sleep(chance.uniform(0, PAUSE_MAX_S))
        before, time_s = dict(acknowledged), time.monotonic()
        image = folder / f"copy-{number}.img"
        await asyncio.to_thread(_copy, host, image)
        copies.append(Copy(image, time_s, before))
    await sending
    return copies


def _copy(host: Path, image: Path) -> None:
    """Copy the disk while nothing can be written to it."""
    _run("fsfreeze", "--freeze", str(host))
    try:
        _run("cp", "--sparse=always", str(host / "disk.img"), str(image))
    finally:
        _run("fsfreeze", "--unfreeze", str(host))


def _recover(strategy: Strategy, copy: Copy, at: Path) -> dict[traffic.Place, bytes]:
    """Mount a copy, recover the store on it, and see that it goes on; give what it holds."""
    stored: dict[traffic.Place, bytes] = {}
    with _mounted(copy.image, at) as disk:
        with MessageStore.open(disk / "store", from_properties(traffic.SMALL | strategy.settings)) as store:
            assert (store.recovered.damages, store.recovered.gaps) == ([], [])
            for topic in traffic.TOPICS:
                for queue_id in range(traffic.QUEUES):
                    bodies = _read_all(store, topic, queue_id)
                    stored |= {
                        traffic.Place(topic, queue_id, offset): body for offset, body in enumerate(bodies)
                    }
                    [appended] = store.append_messages([Message(topic, b"0/0/0;")], queue_id)
                    assert appended.queue_offset == len(bodies), "queue offsets have a gap or a repeat"
        gc.collect()  # maps of the files, that the disk can be unmounted
    traffic.check_bodies(stored)
    copy.image.unlink()
    return stored


def _read_all(store: MessageStore, topic: str, queue_id: int) -> list[bytes]:
    bodies: list[bytes] = []
    assert store.min_queue_offset(topic, queue_id) == 0
    while len(bodies) < store.max_queue_offset(topic, queue_id):
        records = [decode(record) for record in store.get(topic, queue_id, len(bodies)).records]
        assert [record.queue_offset for record in records] == list(
            range(len(bodies), len(bodies) + len(records))
        )
        assert records
        bodies += [record.body for record in records]
    return bodies


def _make_disk(image: Path, size: int) -> Path:
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", str(image))
    return image


@contextmanager
def _mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    _run("mount", "-o", "loop,noatime", str(image), str(at))
    try:
        yield at
    finally:
        _run("umount", str(at))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
