"""Disks that are full or fail, stores that cannot be used: reads go on, nothing acknowledged is lost."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adversity.conftest import AFTER, CALM, PATIENCE_S, QUEUES, Bystander, Scene, attacked, read
from tests.broker.conftest import Client, bodies, pull_header
from tests.kit.refusals import assert_log_is_sound, says
from tests.live import SMALL, serving

from cometmq.errors import StoreDamaged, StoreLocked
from cometmq.io.files import File
from cometmq.message import MessageQueue
from cometmq.store.directory import REBUILD
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import headers
from cometmq.wire.bodies import GroupConfig, LockRequest, TextTable, decode
from cometmq.wire.codes import RequestCode, ResponseCode

ROOT = Path("/disk/store")
ROOMY = 2**40
SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
PULL = RequestCode.PULL_MESSAGE


async def until(bystander: Bystander, holds: Callable[[], bool]) -> None:
    """Send by the bystander until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await bystander.send()


async def check_again(disk: MemoryDisk, bystander: Bystander) -> None:
    """Open the store of another broker on ``disk``, and read back what was acknowledged to the bystander."""
    async with serving(ROOT, files=disk) as live:
        client = await Client.open(live.broker)
        await bystander.check(client)
        await client.connection.close()


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_full_disk_takes_nothing_more_and_gives_what_it_has(
    flush: FlushDiskType, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()

    async def fill(scene: Scene, key: str) -> None:
        ask, bystander = scene.client.ask, scene.bystander
        await scene.client.send("T", b"first", KEYS=key)
        disk.space_bytes = 0
        await until(bystander, lambda: bystander.refused[ResponseCode.SERVICE_NOT_AVAILABLE] > AFTER)
        assert set(bystander.refused) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        for answer in (
            await scene.client.send("T", bytes(5_000)),
            await scene.client.send("New"),
            await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig("new")),
            await ask(RequestCode.CONSUMER_SEND_MSG_BACK, headers.SendBackHeader(0, "TOOLS_CONSUMER", 0)),
        ):
            assert says(answer, ResponseCode.SERVICE_NOT_AVAILABLE, "disk full", str(ROOT), "free some space")
        if key != "k0":  # the topic was deleted and made anew since the group read it
            moved = await ask(PULL, pull_header("T", group="TOOLS_CONSUMER"))
            assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
        for group in ("TOOLS_CONSUMER", f"new{key}"):  # reading never needs writing
            assert bodies(await ask(PULL, pull_header("T", group=group))) == [b"first"]
        found = await ask(RequestCode.QUERY_MESSAGE, headers.QueryMessageHeader("T", key, 32, 0, 2**62))
        assert bodies(found) == [b"first"]
        commit = headers.UpdateConsumerOffsetHeader("TOOLS_CONSUMER", "T", 0, 1)
        assert says(await ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit), ResponseCode.SUCCESS)
        for group in ("TOOLS_CONSUMER", f"newer{key}"):
            assert says(await scene.client.heartbeat(group, "T"), ResponseCode.SUCCESS)

    async def main() -> None:
        async with attacked(ROOT, files=disk, store={"flush_disk_type": flush}) as scene:
            for key in ("k0", "k1"):
                await fill(scene, key)
                as_killed = disk.after_kill()
                as_killed.space_bytes = ROOMY
                await check_again(as_killed, scene.bystander)
                disk.space_bytes = ROOMY
                scene.bystander.refused.clear()
                assert says(await scene.client.send("T", b"first"), ResponseCode.SUCCESS)
                answer = await scene.client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, headers.TopicHeader("T"))
                assert says(answer, ResponseCode.SUCCESS)
        await check_again(disk.after_power_loss(), scene.bystander)

    await main()
    assert_log_is_sound(caplog)


class ReadOnlyDisk(MemoryDisk):
    """A file system that the system makes read-only, as it does after an error."""

    is_read_only = False

    def save(self, path: Path, data: bytes) -> None:
        self._check(path)
        super().save(path, data)

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        self._check(path)
        return super().create(path, size, durable=durable)

    def make_directory(self, path: Path, *, durable: bool = True) -> None:
        if not self.exists(path):
            self._check(path)
        super().make_directory(path, durable=durable)

    def _check(self, path: Path) -> None:
        if self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


async def test_a_read_only_disk_is_read_by_new_groups_and_shown_from_the_first_failed_write_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = ReadOnlyDisk()

    async def failed_writes() -> str:
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        return decode(TextTable, answer.body).table["storeFailedWrites"]

    async with serving(ROOT, files=disk) as live:
        client = await Client.open(live.broker)
        await client.send("T", b"first")
        assert await failed_writes() == ""
        disk.is_read_only = True
        assert says(await client.heartbeat("new", "T"), ResponseCode.SUCCESS)
        assert bodies(await client.ask(PULL, pull_header("T", group="new"))) == [b"first"]
        assert bodies(await client.ask(PULL, pull_header("T", group="newer"))) == [b"first"]
        commit = headers.UpdateConsumerOffsetHeader("newer", "T", 0, 1)
        assert says(await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit), ResponseCode.SUCCESS)
        asked = headers.QueryConsumerOffsetHeader("newer", "T", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext_fields["offset"] == "1"
        lock = LockRequest("new", "c", [MessageQueue("T", "broker-a", 0)])
        assert says(await client.ask(RequestCode.LOCK_BATCH_MQ, body=lock), ResponseCode.SUCCESS)
        shown = await failed_writes()
        for table in ("topics.json", "subscriptionGroup.json", "queueLocks.json"):
            assert f"write fails in config/{table}" in shown and "Read-only file system" in shown
        refused = await client.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig("created")
        )
        assert says(refused, ResponseCode.SERVICE_NOT_AVAILABLE, "is not saved", "make it writable")
        disk.is_read_only = False
        created = await client.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig("created")
        )
        assert says(created, ResponseCode.SUCCESS)
        await client.send("Other")
        lock = LockRequest("newer", "c", [MessageQueue("T", "broker-a", 0)])
        await client.ask(RequestCode.LOCK_BATCH_MQ, body=lock)
        assert await failed_writes() == ""
        await client.connection.close()
    async with serving(ROOT, files=disk.after_power_loss()) as live:
        client = await Client.open(live.broker)
        for group in ("new", "newer", "created"):
            found = await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, headers.GroupHeader(group))
            assert says(found, ResponseCode.SUCCESS), group
        await client.connection.close()
    in_memory = [record for record in caplog.records if "are in memory only" in record.message]
    assert len(in_memory) == 2, "said once for each table"


async def test_a_sync_that_fails_is_the_end_of_sending_and_not_of_reading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()

    async with serving(ROOT, files=disk, store=SYNC) as live:
        client = await Client.open(live.broker)
        bystander = Bystander(client, client)
        await until(bystander, lambda: len(bystander.acknowledged[0]) > AFTER)
        disk.fail_sync = True
        unsure = await bystander.send()
        assert says(unsure, ResponseCode.FLUSH_DISK_TIMEOUT, "check the disk", "restart")
        for _ in range(AFTER):
            refused = await bystander.send()
            assert says(refused, ResponseCode.SERVICE_NOT_AVAILABLE, "check the disk", "restart to recover")
        await bystander.check(client)
        for queue_id in range(QUEUES):
            stored = await read(client, CALM, queue_id)
            assert stored == bystander.acknowledged[queue_id], "nobody reads what may be lost"
        await client.connection.close()
    disk.fail_sync = False
    await check_again(disk.after_power_loss(), bystander)
    assert [record.levelname for record in caplog.records if "sync failed" in record.message]
    assert_log_is_sound(caplog)


async def test_a_store_that_is_open_already_is_refused_and_its_owner_goes_on(tmp_path: Path) -> None:
    async with attacked(tmp_path):
        with pytest.raises(StoreLocked, match="stop it first, or use another directory") as refused:
            async with serving(tmp_path):
                pass
        assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("commitlog", ("bytes, expected 1048576", "mappedFileSizeCommitLog", "restore the file")),
        ("consumequeue/Calm/0", ("bytes, expected 20000", "mappedFileSizeConsumeQueue", REBUILD)),
    ],
)
@pytest.mark.parametrize("change", [-4_096, 1])
async def test_a_store_file_of_the_wrong_length_stops_the_start_and_harms_nothing(
    tmp_path: Path, where: str, words: tuple[str, ...], change: int
) -> None:
    async with attacked(tmp_path) as scene:
        pass
    (path,) = (tmp_path / where).iterdir()
    whole = path.read_bytes()
    path.write_bytes((whole + b"\0")[: len(whole) + change])
    with pytest.raises(StoreDamaged) as refused:
        async with serving(tmp_path):
            pass
    text = str(refused.value)
    assert [word for word in (str(path), str(len(whole) + change), *words) if word not in text] == [], text
    if REBUILD in words:
        rebuild(tmp_path, StoreSettings(**SMALL))
    else:
        path.write_bytes(whole)
    async with serving(tmp_path) as live:
        client = await Client.open(live.broker)
        await scene.bystander.check(client)
        await client.connection.close()


@pytest.mark.parametrize("where", ["index", "checkpoint"])
async def test_a_derived_file_of_the_wrong_length_is_made_anew(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with attacked(tmp_path) as scene:
        await scene.client.send("T", b"found", KEYS="k")
    path = tmp_path / where
    (path,) = path.iterdir() if path.is_dir() else [path]
    path.write_bytes(path.read_bytes()[:10])
    async with serving(tmp_path) as live:
        client = await Client.open(live.broker)
        query = headers.QueryMessageHeader("T", "k", 32, 0, 2**62)
        assert bodies(await client.ask(RequestCode.QUERY_MESSAGE, query)) == [b"found"]
        await scene.bystander.check(client)
        await client.connection.close()
    assert where in caplog.text
