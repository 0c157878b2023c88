"""Brokers that change their roles, from end to end: what each has, what readers see, what is set aside."""

import asyncio
import errno
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.broker.conftest import SMALL, bodies, pull_header
from tests.broker.failover.conftest import running, started, switching, tell, until_role
from tests.kit.controllers import controllers
from tests.replication.conftest import client_of, log_bytes, name_server, until
from tests.store.conftest import new_message

from cometmq.broker.failover.switching import SwitchingBroker
from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.replication.epochs import EpochFile, EpochList, decode_epochs
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import EpochsOfBroker, EpochSpan
from cometmq.wire.codes import RequestCode, ResponseCode

PULL = RequestCode.PULL_MESSAGE
BOTH = frozenset({1, 2})


async def send(switched: SwitchingBroker, *texts: bytes) -> None:
    async with client_of(running(switched)) as client:
        for text in texts:
            answer = await client.send("T", text)
            assert answer.code == ResponseCode.SUCCESS, answer.remark


async def read(switched: SwitchingBroker) -> list[bytes]:
    async with client_of(running(switched)) as client:
        return bodies(await client.ask(PULL, pull_header("T")))


def epochs_of(root: Path) -> EpochList:
    return decode_epochs((root / "epochFileCheckpoint").read_bytes())


async def test_a_slave_takes_over_and_the_old_master_follows_it(tmp_path: Path) -> None:
    async with name_server() as names, controllers(1) as ([controller], _), AsyncExitStack() as stack:
        state = controller.state
        first = switching(tmp_path / "1", names, controller)
        await first.start()
        await send(first, b"alone")
        second = await stack.enter_async_context(started(tmp_path / "2", names, controller))
        await until(lambda: state.in_sync == BOTH)
        await send(first, b"together")
        assert running(second).store.written_offset == running(first).store.written_offset
        await until(lambda: running(second).parts.topics.find("T") is not None)
        await until(lambda: running(second).store.max_queue_offset("T", 0) == 2)
        assert await read(second) == [b"alone", b"together"]

        await first.stop()
        assert state.in_sync == BOTH, "a master that stops takes nobody out of the set"
        news = state.lose(1)
        assert news is not None
        await tell(second)
        await until_role(second, is_slave=False, epoch=2)
        await send(second, b"after it")
        first = await stack.enter_async_context(
            started(tmp_path / "1", names, controller, listen_port=int(first.address.partition(":")[2]))
        )
        await until_role(first, is_slave=True, epoch=2)
        await until(lambda: state.in_sync == BOTH)
        await send(second, b"together again")
        await until(lambda: running(first).store.max_queue_offset("T", 0) == 4)
        sent = [b"alone", b"together", b"after it", b"together again"]
        assert await read(first) == await read(second) == sent
        async with client_of(running(first)) as client:
            answer = decode(EpochsOfBroker, (await client.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).body)
        begin = epochs_of(tmp_path / "2").entries[1].start_offset
        assert answer.epochs == [EpochSpan(1, 0, begin), EpochSpan(2, begin, 2**63 - 1)]
        assert answer.broker_id == 1 and answer.max_offset == running(second).store.written_offset
    assert list(log_bytes(tmp_path / "1")) == list(log_bytes(tmp_path / "2"))
    assert epochs_of(tmp_path / "1") == epochs_of(tmp_path / "2")


async def test_what_only_the_old_master_has_is_cut_off_and_set_aside(tmp_path: Path) -> None:
    async with name_server() as names, controllers(1) as ([controller], _), AsyncExitStack() as stack:
        state = controller.state
        async with started(tmp_path / "1", names, controller) as first:
            second = await stack.enter_async_context(started(tmp_path / "2", names, controller))
            await until(lambda: state.in_sync == BOTH)
            await send(first, b"of both")
        with MessageStore.open(tmp_path / "1", StoreSettings(**SMALL)) as store:
            begin = store.written_offset
            store.append([new_message(topic="T", queue_id=0, body=b"of one")] * 3)
        news = state.lose(1)
        assert news is not None
        await tell(second)
        await until_role(second, is_slave=False, epoch=2)
        await send(second, b"of the new master")
        old = await stack.enter_async_context(started(tmp_path / "1", names, controller))
        await until(lambda: state.in_sync == BOTH)
        await until(lambda: running(old).store.max_queue_offset("T", 0) == 2)
        assert await read(old) == [b"of both", b"of the new master"]
        (folder,) = (tmp_path / "1" / "setaside").glob(f"truncated-{begin:020}*")
        (cut,) = layout.commitlog_dir(folder).iterdir()
        assert cut.read_bytes().count(b"of one") == 3
    assert list(log_bytes(tmp_path / "1")) == list(log_bytes(tmp_path / "2"))


async def test_only_a_master_writes_through_the_pool_in_whichever_order_roles_come(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        controllers(1) as ([controller], _),
        started(tmp_path / "1", names, controller, pool=True) as first,
        started(tmp_path / "2", names, controller, pool=True) as second,
    ):
        await until(lambda: controller.state.in_sync == BOTH)
        assert running(first).store.settings.transient_store_pool_enable
        assert not running(second).store.settings.transient_store_pool_enable


async def test_a_master_whose_epoch_ends_goes_on_in_the_next_one(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        controllers(1) as ([controller], _),
        started(tmp_path / "1", names, controller) as first,
        started(tmp_path / "2", names, controller) as second,
    ):
        state = controller.state
        await until(lambda: state.in_sync == BOTH)
        await send(first, b"of epoch 1")
        of_first, of_second, begin = running(first), running(second), running(first).store.written_offset
        state.epoch, state.set_epoch, state.in_sync = 2, state.set_epoch + 1, frozenset({1})
        state.masters[2] = 1
        for one in (first, second):
            await tell(one)
        await until_role(first, is_slave=False, epoch=2)
        await until_role(second, is_slave=True, epoch=2)
        assert running(first) is of_first and running(second) is of_second, "nobody was stopped"
        await until(lambda: state.in_sync == BOTH)
        await send(first, b"of epoch 2")
        epochs = EpochList.of((1, 0), (2, begin))
        assert epochs_of(tmp_path / "1") == epochs_of(tmp_path / "2") == epochs


async def test_a_slave_follows_a_new_master_without_a_restart(tmp_path: Path) -> None:
    async with name_server() as names, controllers(1) as ([controller], _), AsyncExitStack() as stack:
        state = controller.state
        async with started(tmp_path / "1", names, controller) as first:
            await send(first, b"of the first")
            second, third = [
                await stack.enter_async_context(started(tmp_path / name, names, controller)) for name in "23"
            ]
            await until(lambda: state.in_sync == frozenset({1, 2, 3}))
            await until(lambda: running(third).parts.topics.find("T") is not None)
        of_third = running(third)
        news = state.lose(1)
        assert news is not None and news.broker_id == 2
        for one in (second, third):
            await tell(one)
        await until_role(second, is_slave=False, epoch=2)
        await until(lambda: state.in_sync == frozenset({2, 3}))
        await send(second, b"of the second")
        await until(lambda: running(third).store.max_queue_offset("T", 0) == 2)
        assert running(third) is of_third
        assert await read(third) == [b"of the first", b"of the second"]


async def test_with_too_few_in_sync_nothing_is_stored(tmp_path: Path) -> None:
    few = {"min_in_sync_replicas": 2}
    async with (
        name_server() as names,
        controllers(1) as ([controller], _),
        started(tmp_path / "1", names, controller, **few) as first,
        client_of(running(first)) as client,
    ):
        assert (await client.send("T", b"alone")).code == ResponseCode.SYSTEM_ERROR
        async with started(tmp_path / "2", names, controller, **few):
            await until(lambda: not running(first).parts.safe.are_too_few)
            assert (await client.send("T", b"together")).code == ResponseCode.SUCCESS
        await until(lambda: running(first).parts.safe.are_too_few)
        assert running(first).store.max_queue_offset("T", 0) == 1


async def test_a_change_of_the_role_that_fails_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        name_server() as names,
        controllers(1) as ([controller], _),
        started(tmp_path / "1", names, controller),
        started(tmp_path / "2", names, controller) as second,
    ):
        state = controller.state
        ended = asyncio.create_task(second.ended())

        def refuse(*_: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(EpochFile, "save", refuse)
        state.master, state.epoch, state.in_sync = 2, 9, frozenset({2})
        await tell(second)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await ended
        assert second.running is None


async def test_a_broker_that_cannot_have_its_first_role_does_not_start(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        controllers(1) as ([controller], _),
        started(tmp_path / "1", names, controller) as first,
    ):
        port = int(first.address.partition(":")[2])
        with pytest.raises(SettingsError, match="cannot listen"):
            await switching(tmp_path / "2", names, controller, listen_port=port).start()
        with MessageStore.open(tmp_path / "2", StoreSettings(**SMALL)) as store:
            assert not store.written_offset, "it was closed"


async def test_the_port_must_be_known_before_the_broker_listens(tmp_path: Path) -> None:
    async with controllers(1) as ([controller], _):
        with pytest.raises(SettingsError, match="listenPort = 0 under a controller"):
            switching(tmp_path, "", controller, listen_port=0)
