"""Which broker pulls are told to read from next, and a consumer that goes there."""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.broker.conftest import bodies, pull_header
from tests.replication.conftest import caught_up, client_of, name_server, pair, running, slave, until
from tests.store.conftest import new_message

from cometmq.client import PullConsumer
from cometmq.message import MessageQueue
from cometmq.store import settings
from cometmq.wire.bodies import GroupConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

PULL: Final = RequestCode.PULL_MESSAGE
LITE_PULL: Final = RequestCode.LITE_PULL_MESSAGE
MANY: Final = 200
END: Final = MANY + 1
NEAR: Final = END - 10
MEMORY: Final = 100_000
"""Of the machine: two fifths of it are less than a third of the messages."""
READABLE: Final[dict[str, Any]] = {"slave_read_enable": True}


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MEMORY_BYTES", MEMORY)


def suggested(answer: Command) -> int:
    return int(answer.ext_fields["suggestWhichBrokerId"])


async def test_a_reader_that_is_far_behind_is_sent_to_the_slave(tmp_path: Path) -> None:
    async with pair(tmp_path, READABLE) as (master, _, client, _of_slave):
        await client.send("T", b"first")
        master.store.append([new_message("T", body=b"x" * 700)] * MANY)
        for code in (PULL, LITE_PULL):
            far = await client.ask(code, pull_header("T"))
            assert (suggested(far), far.code, bodies(far)[0]) == (1, 0, b"first")
            assert far.ext_fields["maxOffset"] == str(END)
            near = await client.ask(code, pull_header("T", NEAR))
            assert (suggested(near), len(bodies(near))) == (0, END - NEAR)
        unwanted = await client.ask(PULL, pull_header("T", tags="none"))
        assert (suggested(unwanted), unwanted.code) == (0, ResponseCode.PULL_RETRY_IMMEDIATELY), (
            "it looked at all"
        )
        nothing = await client.ask(PULL, pull_header("T", END))
        assert (suggested(nothing), nothing.code) == (0, ResponseCode.PULL_NOT_FOUND)


async def test_a_groups_settings_say_which_broker_its_readers_are_sent_to(tmp_path: Path) -> None:
    async with pair(tmp_path, READABLE) as (master, _, client, _of_slave):
        await client.send("T", b"first")
        master.store.append([new_message("T", body=b"x" * 700)] * MANY)
        master.parts.groups.put(GroupConfig("cg", broker_id=2, slow_broker_id=3))
        assert suggested(await client.ask(PULL, pull_header("T"))) == 3
        assert suggested(await client.ask(PULL, pull_header("T", NEAR))) == 2


@pytest.mark.parametrize("own", [{}, READABLE])
async def test_without_a_slave_and_where_slaves_are_not_read_everybody_stays(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    async with (
        name_server() as names,
        running(tmp_path / "m", names, **own) as master,
        client_of(master) as client,
    ):
        await client.send("T", b"first")
        master.store.append([new_message("T", body=b"x" * 700)] * MANY)
        assert suggested(await client.ask(PULL, pull_header("T"))) == 0
        if own:
            return
        async with slave(tmp_path / "s", names):
            await until(lambda: bool(master.parts.replication.acks.by_slave))
            assert suggested(await client.ask(PULL, pull_header("T"))) == 0


async def test_a_slave_sends_readers_that_have_caught_up_back_to_its_master(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, producer, client):
        await producer.send("T", b"first")
        master.store.append([new_message("T", body=b"x" * 700)] * MANY)
        await caught_up(master, follower)
        await until(lambda: follower.parts.topics.find("T") is not None)
        far = await client.ask(PULL, pull_header("T"))
        assert (suggested(far), far.code) == (1, 0)
        near = await client.ask(PULL, pull_header("T", NEAR))
        assert (suggested(near), near.code) == (0, 0)
        for offset in (END, END + 100):  # it may lack what the master has, so none of these is wrong
            nothing = await client.ask(PULL, pull_header("T", offset, wait_ms=60_000))
            assert (suggested(nothing), nothing.code) == (0, ResponseCode.PULL_RETRY_IMMEDIATELY)
        await master.stop()
        await until(lambda: follower.parts.replication.is_looking)
        held = client.ask_later(PULL, pull_header("T", END, wait_ms=60_000))
        await until(lambda: follower.parts.pulls.held_count == 1)
        held.cancel()


async def test_a_consumer_reads_what_is_old_from_the_slave_and_the_rest_from_the_master(
    tmp_path: Path,
) -> None:
    async with (
        name_server() as names,
        running(tmp_path / "m", names, **READABLE) as master,
        slave(tmp_path / "s", names) as follower,
        client_of(master) as producer,
        PullConsumer(names, "cg") as consumer,
    ):
        await producer.send("T", b"first")
        master.store.append([new_message("T", body=b"%d" % number * 350) for number in range(10)] * 20)
        await caught_up(master, follower)
        await until(lambda: follower.parts.topics.find("T") is not None)
        await until(lambda: bool(master.parts.replication.acks.by_slave))
        queue = MessageQueue("T", "pair", 0)
        offsets = [message.queue_offset async for message in consumer.messages(queue)]
        assert offsets == list(range(END))
        shares = [broker.parts.rates.delivered.total for broker in (master, follower)]
        assert sum(shares) == END and min(shares) > 0, shares
