import json
from pathlib import Path

import pytest

from cometmq.broker.state.pop.message_modes import RequestModes
from cometmq.errors import StoreDamaged, StoreNotWritable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import MessageModeRequest, RequestMode

POP = MessageModeRequest("TopicC", "cgpop", RequestMode.POP, 8)
REAL = {
    "messageRequestModeMap": {
        "TopicC": {
            "cgpop": {"consumerGroup": "cgpop", "mode": "POP", "popShareQueueNum": 8, "topic": "TopicC"}
        }
    }
}
"""As a real broker writes it."""


def load(directory: Path) -> RequestModes:
    modes = RequestModes(JsonTable(Disk(), directory / "messageRequestMode.json"))
    modes.load()
    return modes


def on_disk(directory: Path) -> dict[str, list[str]]:
    """Return the groups in the file by topic."""
    content = json.loads((directory / "messageRequestMode.json").read_text())
    return {topic: sorted(groups) for topic, groups in content["messageRequestModeMap"].items()}


async def with_modes(directory: Path, *names: tuple[str, str]) -> RequestModes:
    modes = load(directory)
    for topic, group in names:
        modes.put(MessageModeRequest(topic, group, RequestMode.POP))
    await modes.settled()
    return modes


async def test_the_file_is_that_of_a_real_broker(tmp_path: Path) -> None:
    modes = load(tmp_path)
    assert modes.find("TopicC", "cgpop") is None
    modes.put(POP)
    assert modes.find("TopicC", "cgpop") == POP
    await modes.settled()
    path = tmp_path / "messageRequestMode.json"
    assert json.loads(path.read_text()) == REAL
    path.write_text(json.dumps(REAL))
    assert load(tmp_path).find("TopicC", "cgpop") == POP


async def test_a_mode_replaces_the_former_one_and_no_other(tmp_path: Path) -> None:
    modes = await with_modes(tmp_path, ("T", "g"), ("T", "h"), ("U", "g"))
    modes.put(MessageModeRequest("T", "g", RequestMode.PULL))
    await modes.stop()
    again = load(tmp_path)
    found = {name: again.find(*name) for name in (("T", "g"), ("T", "h"), ("U", "g"))}
    assert {name: mode and mode.mode for name, mode in found.items()} == {
        ("T", "g"): RequestMode.PULL,
        ("T", "h"): RequestMode.POP,
        ("U", "g"): RequestMode.POP,
    }


async def test_a_change_tells_when_it_is_on_the_disk(tmp_path: Path) -> None:
    modes = load(tmp_path)
    saved: list[StoreNotWritable | None] = []
    modes.put(POP)
    modes.when_saved("TopicC", saved.append)
    assert saved == []
    await modes.settled()
    assert saved == [None]
    modes.put(POP)  # nothing changes
    modes.when_saved("TopicC", saved.append)
    assert saved == [None, None]


async def test_when_the_disk_refuses_nothing_changes(tmp_path: Path) -> None:
    modes = load(tmp_path)
    (tmp_path / "messageRequestMode.json").mkdir()
    refused: list[StoreNotWritable | None] = []
    modes.put(POP)
    modes.when_saved("TopicC", refused.append)
    await modes.settled()
    assert refused != [None] and "messageRequestMode.json is not saved" in str(refused[0])
    assert modes.find("TopicC", "cgpop") is None


async def test_deleted_topics_and_groups_lose_their_modes_on_the_disk_too(tmp_path: Path) -> None:
    modes = await with_modes(tmp_path, ("T", "g"), ("T", "h"), ("U", "g"), ("V", "g"), ("V", "h"))
    before = modes.as_table()
    await modes.delete_groups(["g", "unknown"])
    assert on_disk(tmp_path) == {"T": ["h"], "V": ["h"]}
    await modes.delete_topics(["T", "unknown"])
    assert on_disk(tmp_path) == {"V": ["h"]}
    assert modes.as_table().modes.keys() == {"V"} and len(before.modes) == 3


async def test_a_deletion_without_modes_writes_nothing(tmp_path: Path) -> None:
    modes = load(tmp_path)
    (tmp_path / "messageRequestMode.json").mkdir()  # a write would be refused
    await modes.delete_topics(["T"])
    await modes.delete_groups(["g"])


async def test_a_deletion_that_the_disk_refuses_raises_its_error(tmp_path: Path) -> None:
    modes = await with_modes(tmp_path, ("T", "g"))
    path = tmp_path / "messageRequestMode.json"
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreNotWritable):
        await modes.delete_groups(["g"])
    assert modes.find("T", "g") is not None


def test_a_file_with_something_else_is_damage(tmp_path: Path) -> None:
    (tmp_path / "messageRequestMode.json").write_text(
        '{"messageRequestModeMap": {"T": {"g": {"mode": "PUSH"}}}}'
    )
    with pytest.raises(StoreDamaged, match="MessageModes"):
        load(tmp_path)
