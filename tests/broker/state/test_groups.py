import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from cometmq.broker.state.groups import Groups
from cometmq.cluster.system_names import BOOT_GROUPS
from cometmq.errors import IllegalName, StoreNotWritable
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import GroupConfig


def load(directory: Path, *, auto_create: bool = True) -> Groups:
    table = JsonTable(Disk(), directory / "subscriptionGroup.json")
    groups = Groups(table, ManualClock(), auto_create=auto_create)
    groups.load()
    return groups


async def test_a_real_brokers_groups_are_read_and_written_again_equal(
    golden: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "subscriptionGroup.json"
    content = (golden["store-clean"] / "config" / path.name).read_bytes()
    path.write_bytes(content)
    groups = load(tmp_path)
    full = groups.find("GoldenGroupFull")
    assert full is not None
    groups.put(replace(full, retry_max_times=3))
    await groups.settled()
    real, ours = json.loads(content), json.loads(path.read_bytes())
    real["dataVersion"] = ours["dataVersion"]
    real["subscriptionGroupTable"]["GoldenGroupFull"]["retryMaxTimes"] = 3
    assert ours == real


def test_the_groups_of_the_boot_are_there(tmp_path: Path) -> None:
    assert {group.group for group in load(tmp_path)} == set(BOOT_GROUPS)


async def test_an_unknown_group_is_created_if_that_is_allowed(tmp_path: Path) -> None:
    assert load(tmp_path, auto_create=False).find_or_create("g") is None
    groups = load(tmp_path)
    assert groups.find_or_create("g") == GroupConfig(group="g")
    await groups.settled()
    assert load(tmp_path).find("g") == GroupConfig(group="g")


async def test_a_deleted_group_is_gone_for_good(tmp_path: Path) -> None:
    groups = load(tmp_path)
    groups.put(GroupConfig(group="g"))
    groups.delete("g")
    groups.delete("g")
    await groups.settled()
    assert groups.find("g") is None and load(tmp_path).find("g") is None
    assert groups.as_table().data_version.counter == 2


def test_an_illegal_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IllegalName):
        load(tmp_path).find_or_create("a b")


def test_an_illegal_name_in_the_file_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = {name: {"groupName": name} for name in ("a b", "g")}
    path = tmp_path / "subscriptionGroup.json"
    path.write_text(json.dumps({"dataVersion": {}, "subscriptionGroupTable": table}))
    groups = load(tmp_path)
    assert groups.find("g") is not None and groups.find("a b") is None
    assert "a b" in caplog.text


async def test_when_the_disk_refuses_nothing_changes(tmp_path: Path) -> None:
    groups = load(tmp_path)
    (tmp_path / "subscriptionGroup.json").mkdir()
    refused: list[StoreNotWritable | None] = []
    groups.put(GroupConfig(group="g"))
    groups.when_saved("g", refused.append)
    await groups.settled()
    assert groups.find("g") is None
    assert isinstance(refused[0], StoreNotWritable)


async def test_a_group_that_a_client_creates_is_there_though_the_disk_refuses(tmp_path: Path) -> None:
    groups = load(tmp_path)
    (tmp_path / "subscriptionGroup.json").mkdir()
    groups.find_or_create("g")
    await groups.settled()
    assert groups.find("g") is not None
    (tmp_path / "subscriptionGroup.json").rmdir()
    await groups.stop()
    assert load(tmp_path).find("g") is not None


async def test_a_change_is_told_when_it_holds(tmp_path: Path) -> None:
    groups, told = load(tmp_path), []
    groups.on_change.append(lambda: told.append(groups.find("g")))
    group = groups.find_or_create("g")
    assert told == [group]
    groups.find_or_create("g")
    assert told == [group]
    groups.delete("g")
    assert told == [group, None]


async def test_what_a_group_may_not_read_is_saved_and_undone_if_the_disk_refuses(tmp_path: Path) -> None:
    groups, path = load(tmp_path), tmp_path / "subscriptionGroup.json"
    groups.forbid("g", "T", is_forbidden=True)
    groups.forbid("g", "U", is_forbidden=True)
    await groups.settled()
    assert '"T":4' in path.read_text()
    groups = load(tmp_path)
    assert [groups.is_forbidden("g", topic) for topic in "TUV"] == [True, True, False]
    groups.forbid("g", "U", is_forbidden=False)
    await groups.settled()
    assert [groups.is_forbidden("g", topic) for topic in "TU"] == [True, False]
    path.unlink()
    path.mkdir()
    refused: list[StoreNotWritable | None] = []
    groups.forbid("g", "T", is_forbidden=False).when_saved(refused.append)
    assert not groups.is_forbidden("g", "T"), "it holds at once"
    await groups.settled()
    assert isinstance(refused[0], StoreNotWritable) and groups.is_forbidden("g", "T")
