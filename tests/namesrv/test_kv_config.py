import asyncio
import threading
from pathlib import Path

import pytest
from tests.kit.stores import HeldDisk

from cometmq.errors import StoreDamaged
from cometmq.namesrv.kv_config import KvConfig, size_of
from cometmq.wire.bodies import TextTable, decode


class FullDisk(HeldDisk):
    def __init__(self) -> None:
        super().__init__()
        self.refuses = True


PATH = Path("/namesrv/kvConfig.json")


async def put(config: KvConfig, namespace: str, key: str, value: str | None) -> OSError | None:
    """Set a text, or remove it; give why it could not be saved."""
    saved: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    if value is None:
        config.delete(namespace, key, saved.set_result)
    else:
        config.put(namespace, key, value, saved.set_result)
    return await saved


def table(config: KvConfig, namespace: str) -> dict[str, str] | None:
    body = config.body(namespace)
    return None if body is None else decode(TextTable, body).table


async def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    config = KvConfig(path)
    assert await put(config, "ORDER_TOPIC_CONFIG", "T", "broker-a:4;broker-b:4") is None
    await put(config, "n", "k", "v")
    await put(config, "n", "k", "wü")
    for seen in (config, KvConfig(path)):
        assert seen.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4;broker-b:4"
        assert table(seen, "n") == {"k": "wü"}


async def test_what_was_deleted_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    config = KvConfig(path)
    await put(config, "n", "k", "v")
    for namespace in ("n", "n", "other"):
        assert await put(config, namespace, "k", None) is None
    for seen in (config, KvConfig(path)):
        assert seen.get("n", "k") is None
        assert table(seen, "n") == {}, "the namespace stays, as in RocketMQ"
        assert table(seen, "other") is None


async def test_the_file_of_a_java_name_server_is_read_and_written_in_its_form(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}')
    config = KvConfig(path)
    assert config.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"
    await put(config, "ORDER_TOPIC_CONFIG", "T", "broker-a:8")
    assert path.read_text() == '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:8"}}}'


async def test_all_changes_of_a_turn_are_one_write_in_a_thread() -> None:
    disk = HeldDisk()
    disk.gate.clear()
    config = KvConfig(PATH, disk)
    told: list[OSError | None] = []
    for n in range(800):
        config.put("n", f"k{n}", "v", told.append)
    assert told == [] and config.get("n", "k0") is None, "it is on the disk before it is seen"
    disk.gate.set()
    await config.settled()
    assert told == [None] * 800 and disk.saved == [PATH]
    assert threading.current_thread() not in disk.threads
    assert len(table(KvConfig(PATH, disk), "n") or {}) == 800


async def test_what_changes_nothing_is_not_written() -> None:
    disk = HeldDisk()
    config = KvConfig(PATH, disk)
    await put(config, "n", "k", "v")
    await put(config, "n", "k", "v")
    await put(config, "n", "k2", None)
    assert disk.saved == [PATH]


@pytest.mark.parametrize("content", ["", '{"configTable":{"n":', "[]", '{"configTable":{"n":3}}'])
def test_a_damaged_file_is_named_with_the_remedy_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(content)
    with pytest.raises(StoreDamaged, match=r"kvConfig\.json.*move it away"):
        KvConfig(path)
    assert path.read_text() == content


async def test_what_cannot_be_saved_is_not_set() -> None:
    config = KvConfig(PATH, FullDisk())
    assert "No space left" in str(await put(config, "n", "k", "v"))
    assert config.get("n", "k") is None and config.body("n") is None


@pytest.mark.parametrize("disk", [HeldDisk, FullDisk])
async def test_all_texts_are_counted_with_their_names_before_they_are_saved_too(disk: type[HeldDisk]) -> None:
    config = KvConfig(PATH, disk())
    saved = [asyncio.create_task(put(config, f"N{number}", "k", "vü")) for number in range(3)]
    await asyncio.sleep(0)
    assert config.texts_bytes == 3 * size_of("N0", "k", "vü") == 3 * 6
    await asyncio.gather(*saved)
    bodies = [config.body(f"N{number}") or b"" for number in range(3)]
    assert config.texts_bytes == (0 if disk is FullDisk else 3 * 2 + sum(map(len, bodies)))
    await put(config, "N0", "k", None)
    assert config.texts_bytes == (
        0 if disk is FullDisk else 3 * 2 + sum(map(len, bodies)) - len('"k":"vü"'.encode())
    )
