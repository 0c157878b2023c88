from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import BROKER, Client, serving

from cometmq.broker.admin.broker import NO_POOL, _size
from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import settings_text
from cometmq.wire.bodies import TextTable, decode
from cometmq.wire.codes import RequestCode, ResponseCode


async def test_the_runtime_info_has_what_operators_tools_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(2):
            bench.parts.rates.sample()
            bench.clock.advance(90_061_000)
            await bench.send("T")
        answer = await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = decode(TextTable, answer.body).table
        assert table["runtime"] == "[ 2 days, 2 hours, 2 minutes, 2 seconds ]"
        assert table["commitLogMaxOffset"] == str(bench.store.written_offset)
        assert (table["putMessageTimesTotal"], table["dispatchBehindBytes"]) == ("2", "0")
        assert len(table["putTps"].split(" ")) == len(table["getTransferredTps"].split(" ")) == 3
        assert int(table["msgPutTotalTodayNow"]) - int(table["msgPutTotalTodayMorning"]) in (0, 1)
        assert (table["putMessageEntireTimeMax"], table["putLatency99"]) == ("0", "0.00")
        assert table["putMessageDistributeTime"].startswith("[<=0ms]:1 ")
        assert table["sendThreadPoolQueueHeadWaitTimeMills"] == "0"
        assert 0 < float(table["commitLogDiskRatio"]) < 1
        directory = layout.commitlog_dir(bench.store.root)
        assert table[f"commitLogDiskRatio_{directory}"] == table["commitLogDiskRatio"]
        assert (table["connectionCount"], table["connectionsRefused"]) == ("1", "0")
        assert int(table["earliestMessageTimeStamp"]) == bench.clock.now_ms() - 90_061_000


async def test_the_runtime_info_tells_which_way_requests_go(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        rates = bench.parts.rates
        rates.send_rows.update({"compiled": 8, "plain": 7})
        rates.rare_sends = 6
        rates.pull_rows.update({"compiled": 5, "plain": 4})
        rates.pull_commands, rates.rare_pulls = 3, 2
        rates.query_rows.update({"compiled": 9, "plain": 8})
        rates.query_commands, rates.rare_queries = 7, 6
        rates.ack_rows.update({"compiled": 4, "plain": 3})
        rates.ack_commands = 2
        table = decode(TextTable, (await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        of_sends = "sendRowsCompiled", "sendRowsPlain", "sendsRare"
        assert [table[name] for name in of_sends] == ["8", "7", "6"]
        names = "pullRowsCompiled", "pullRowsPlain", "pullsAsCommands", "pullsRare"
        assert [table[name] for name in names] == ["5", "4", "3", "2"]
        names = "queryRowsCompiled", "queryRowsPlain", "queriesAsCommands", "queriesRare"
        assert [table[name] for name in names] == ["9", "8", "7", "6"]
        of_acks = "ackRowsCompiled", "ackRowsPlain", "acksAsCommands"
        assert [table[name] for name in of_acks] == ["4", "3", "2"]


async def test_the_runtime_info_says_how_far_the_store_has_come(tmp_path: Path) -> None:
    disk = MemoryDisk()
    seldom: dict[str, Any] = {"flush_interval_commit_log": 1_000_000}
    async with serving(tmp_path, seldom, files=disk) as bench:
        await bench.send("T")
        store = bench.store
        table = decode(TextTable, (await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        written = store.written_offset
        assert table["commitLogMinOffset"] == table["commitLogFlushedOffset"] == "0"
        for pointer in ("Max", "Written", "Confirm", "Dispatched"):
            assert table[f"commitLog{pointer}Offset"] == str(written)
        assert (table["dispatchBehindBytes"], table["remainHowManyDataToCommit"]) == ("0", "0 B")
        assert table["remainHowManyDataToFlush"] == f"{written} B"
        assert table["commitLogSyncCount"] == "0"
        assert (table["remainTransientStoreBufferNumbs"], table["storeNotWritable"]) == (str(NO_POOL), "")
        disk.fail_sync = True
        with pytest.raises(StoreNotWritable):
            store.wait_flushed().result()
        table = decode(TextTable, (await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert "sync failed" in table["storeNotWritable"]


async def test_an_empty_store_has_no_earliest_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert decode(TextTable, answer.body).table["earliestMessageTimeStamp"] == "-1"


async def test_settings_are_shown_and_some_are_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        before = await bench.ask(RequestCode.GET_BROKER_CONFIG)
        assert settings_text.decode(before.body)["brokerName"] == BROKER
        assert before.ext_fields["version"].startswith('{"counter":0')
        for body, code in (
            (b"transactionTimeOut=7\nbrokerName=other\n", ResponseCode.NO_PERMISSION),
            (b"x=" + b"y" * 20_000, ResponseCode.INVALID_PARAMETER),
        ):
            assert (await bench.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == code
        assert (await bench.ask(RequestCode.GET_BROKER_CONFIG)).body == before.body
        body = b"# a comment\ntransactionTimeOut = 7\n"
        assert (await bench.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == ResponseCode.SUCCESS
        after = await bench.ask(RequestCode.GET_BROKER_CONFIG)
        assert after.body == before.body.replace(b"transactionTimeOut=6000\n", b"transactionTimeOut=7\n")
        assert after.ext_fields["version"].startswith('{"counter":1')


def test_sizes_are_written_as_people_read_them() -> None:
    assert [_size(n) for n in (0, 1023, 1024, 1536, 5 << 30, 1 << 60)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
        "1024.0 PiB",
    ]


async def test_the_runtime_info_says_which_groups_members_subscribe_differently(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        other = await Client.open(bench.address)
        await bench.heartbeat("g", "T", tags="a", client_id="one")
        table = decode(TextTable, (await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert "subscriptionDifferences" not in table
        await other.heartbeat("g", "T", tags="b", client_id="two")
        table = decode(TextTable, (await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert table["subscriptionDifferences"] == "group g: topic T: one wants a; two wants b"
        await other.connection.close()


async def test_a_broker_is_a_master_without_slaves(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        answer = await bench.ask(RequestCode.GET_BROKER_HA_STATUS)
        assert answer.body.decode() == (
            '{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,'
            '"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[],"inSyncSlaveNums":0,'
            f'"master":true,"masterCommitLogMaxOffset":{bench.store.written_offset}}}'
        )
