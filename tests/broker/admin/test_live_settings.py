import asyncio
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, Client, GatedDisk, bodies, pull_header, serving
from tests.broker.pops import popped
from tests.kit.brokers import QUICK, remove_expired
from tests.kit.pages import ROOT

from cometmq.broker.admin.live_settings import CHANGEABLE, load_changes, with_saved_changes
from cometmq.broker.settings import BrokerSettings, Settings, known_names
from cometmq.format import layout
from cometmq.format.java import fastjson
from cometmq.io.files import Disk
from cometmq.store.settings import StoreSettings
from cometmq.store.tables import JsonTable
from cometmq.wire import settings_text
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command


async def change(bench: Bench, text: str) -> Command:
    return await bench.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


async def changed(bench: Bench, text: str) -> None:
    answer = await change(bench, text)
    assert answer.code == ResponseCode.SUCCESS, answer


async def shown(bench: Bench, name: str) -> str:
    return settings_text.decode((await bench.ask(RequestCode.GET_BROKER_CONFIG)).body)[name]


def test_each_setting_that_can_be_changed_exists_and_is_no_place() -> None:
    assert known_names() >= CHANGEABLE
    assert [name for name in CHANGEABLE if "path" in name.lower() or "addr" in name.lower()] == []


def test_the_page_of_settings_names_those_that_can_be_changed() -> None:
    page = (
        (ROOT / "docs" / "settings.md").read_text().partition("## While it runs")[2].partition("\nEach ")[0]
    )
    assert set(re.findall(r"`(\w+)`", page)) == CHANGEABLE


async def test_whether_sends_create_topics_is_changed_both_ways(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_topic_enable=False) as bench:
        assert (await bench.send("A")).code == ResponseCode.TOPIC_NOT_EXIST
        await changed(bench, "autoCreateTopicEnable=true")
        assert (await bench.send("A")).code == ResponseCode.SUCCESS
        await changed(bench, "autoCreateTopicEnable=false")
        assert (await bench.send("B")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await bench.send("A")).code == ResponseCode.SUCCESS


async def test_whether_clients_create_groups_is_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        await changed(bench, "autoCreateSubscriptionGroup=false")
        answer = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", group="new"))
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_messages_in_transactions_are_refused_from_now_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await changed(bench, "rejectTransactionMessage=true\ntransactionTimeOut=9000")
        answer = await bench.send("T", TRAN_MSG="true", PGROUP="pg")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert bench.parts.transaction_check.rules.immunity_ms == 9_000


@pytest.mark.parametrize("bulk", [False, True])
async def test_how_much_a_pull_reads_is_changed(tmp_path: Path, bulk: bool) -> None:
    async with serving(tmp_path, bulk=bulk) as bench:
        for _ in range(60):
            await bench.send("T", bytes(100))
        many = replace(pull_header("T"), max_message_count=100)

        async def pulled() -> int:
            return len(bodies(await bench.ask(RequestCode.PULL_MESSAGE, many)))

        assert await pulled() == 32
        for most in (50, 5):
            await changed(bench, f"maxTransferCountOnMessageInMemory={most}")
            assert await pulled() == most
        await changed(bench, "maxTransferBytesOnMessageInMemory=1")
        assert await pulled() == 1
        refused = await change(bench, "maxTransferCountOnMessageInMemory=0")
        assert refused.code == ResponseCode.INVALID_PARAMETER


async def test_how_much_a_pop_reads_is_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(10):
            await bench.send("T")
        await changed(bench, "maxTransferCountOnMessageInMemory=3")
        assert len(await popped(bench, max_msg_nums=32)) == 3


async def test_what_is_removed_when_is_changed(tmp_path: Path) -> None:
    async with serving(tmp_path, QUICK | {"file_reserved_time": 1_000_000}) as bench:
        for _ in range(20):
            await bench.send("T", bytes(900))
        await remove_expired(bench)
        assert bench.store.min_offset == 0
        await changed(bench, "fileReservedTime=0")
        await remove_expired(bench)
        assert bench.store.min_offset > 0


async def test_changes_are_saved_together_with_those_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await changed(bench, "fileReservedTime=24\ndeleteWhen=03;15")
        await changed(bench, "fileReservedTime=48\nshortPollingTimeMills=500")
        saved = fastjson.loads(layout.config_path(tmp_path, "changedSettings").read_bytes())
        assert saved == {
            "settings": {"deleteWhen": "03;15", "fileReservedTime": "48", "shortPollingTimeMills": "500"}
        }


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("storePathRootDir=/tmp/evil", ResponseCode.NO_PERMISSION, "is read when the broker starts"),
        ("listenPort=1", ResponseCode.NO_PERMISSION, "lists those that can be changed"),
        ("rocketmqHome=/tmp", ResponseCode.NO_PERMISSION, "is read when the broker starts"),
        ("authenticationEnabled=false", ResponseCode.NO_PERMISSION, "is read when the broker starts"),
        ("filterServerNums=1", ResponseCode.NO_PERMISSION, "this broker has no setting filterServerNums"),
        ("fileReservedTime=many", ResponseCode.INVALID_PARAMETER, "fileReservedTime = 'many'"),
        ("transactionCheckMax=0", ResponseCode.INVALID_PARAMETER, "allowed: a whole number from 1"),
        ("recallMessageEnable=maybe", ResponseCode.INVALID_PARAMETER, "recallMessageEnable = 'maybe'"),
    ],
)
async def test_what_cannot_be_changed_is_refused_with_the_reason_and_the_others_with_it(
    tmp_path: Path, text: str, code: ResponseCode, words: str
) -> None:
    async with serving(tmp_path) as bench:
        for body in (f"{text}\ndeleteWhen=01", f"deleteWhen=01\n{text}"):
            answer = await change(bench, body)
            assert answer.code == code and words in (answer.remark or ""), answer
        assert await shown(bench, "deleteWhen") == "04"
        assert not layout.config_path(tmp_path, "changedSettings").exists()


async def test_a_change_that_the_disk_refuses_does_not_hold(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        layout.config_path(tmp_path, "changedSettings").mkdir(parents=True)
        answer = await change(bench, "transactionTimeOut=9000")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "changedSettings.json is not saved" in (answer.remark or "")
        assert await shown(bench, "transactionTimeOut") == "6000"
        assert bench.parts.transaction_check.rules.immunity_ms == 6_000


async def test_a_change_waits_until_the_one_before_is_saved() -> None:
    disk = GatedDisk()
    async with serving(Path("/store"), files=disk) as bench:
        disk.saves.clear()
        first = bench.ask_later(RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionTimeOut=9000")
        answer = await change(bench, "transactionTimeOut=8000")
        assert answer.code == ResponseCode.SYSTEM_BUSY and not first.done()
        disk.saves.set()
        assert (await asyncio.wait_for(first, 60)).code == ResponseCode.SUCCESS
        await changed(bench, "transactionTimeOut=8000")


async def test_a_change_stays_whose_sender_is_gone_before_it_is_saved() -> None:
    disk = GatedDisk()
    async with serving(Path("/store"), files=disk) as bench:
        disk.saves.clear()
        other = await Client.open(bench.address)
        other.ask_later(RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionTimeOut=9000")
        async with asyncio.timeout(60):
            while await shown(bench, "transactionTimeOut") != "9000":
                pass
        await other.connection.close()
        disk.saves.set()
        async with asyncio.timeout(60):
            while (await change(bench, "transactionCheckMax=9")).code == ResponseCode.SYSTEM_BUSY:
                pass
        path = layout.config_path(Path("/store"), "changedSettings")
        saved = fastjson.loads(disk.load(path).decode())
        assert saved == {"settings": {"transactionCheckMax": "9", "transactionTimeOut": "9000"}}


def test_names_in_the_file_that_cannot_be_changed_are_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = JsonTable(Disk(), tmp_path / "changedSettings.json")
    before = Settings(BrokerSettings(), StoreSettings())
    assert with_saved_changes(before, table) is before
    table.save({"settings": {"listenPort": "1", "fileReservedTime": 24}})
    assert load_changes(table) == {"fileReservedTime": "24"}
    assert "listenPort" in caplog.text
    after = with_saved_changes(before, table)
    assert (after.store.file_reserved_time, after.broker) == (24, before.broker)
