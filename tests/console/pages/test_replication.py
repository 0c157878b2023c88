from pathlib import Path

from tests.console.conftest import Browser, browsing
from tests.kit.controllers import master_names
from tests.replication.conftest import caught_up, name_server, pair, slave, until
from tests.store.conftest import new_message

from cometmq.console.settings import ConsoleSettings


async def test_a_broker_without_slaves_is_shown(browser: Browser) -> None:
    text = await browser.text("/replication")
    assert "Masters 1 Connected slaves 0 In sync 0 Furthest behind 0 B" in text
    assert "embedded master 127.0.0.1:" in text and "No slave is connected to a master" in text


async def test_a_master_and_its_slave_are_shown_with_how_far_both_are(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, _, _):
        master.store.append([new_message("T")])
        await caught_up(master, follower)
        end = master.store.written_offset
        await until(lambda: end in master.parts.replication.acks.by_slave.values())
        await until(lambda: not follower.parts.replication.problems())
        async with browsing(ConsoleSettings(master_names(master))) as browser:
            text = await browser.text("/replication")
        assert "Masters 1 Connected slaves 1 In sync 1 Furthest behind 0 B" in text
        assert f"pair master {master.address} {end:,} 0 B 1 1 –" in text
        assert f"pair slave 1 {follower.address} {end:,} 0 B – – " in text and "s ago" in text
        assert f"{end:,} 0 B 0 " in text and "in sync" in text.partition("Slave connects from")[2]


async def test_a_slave_without_its_master_is_shown_with_the_reason(tmp_path: Path) -> None:
    async with name_server() as names, slave(tmp_path, names):
        async with browsing(ConsoleSettings(names)) as browser:
            text = await browser.text("/replication")
        assert "pair not replicating slave 1" in text and "never" in text
        assert "no name server knows the master's address yet" in text


async def test_a_broker_that_does_not_answer_is_shown_beside_the_other(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, _, _):
        await follower.server.stop()
        async with browsing(ConsoleSettings(master_names(master))) as browser:
            text = await browser.text("/replication")
        assert "pair no answer – 1" in text and f"pair at {follower.address}: " in text
        assert f"pair master {master.address}" in text
