from pathlib import Path

import pytest

from cometmq.errors import StoreDamaged
from cometmq.io.files import Disk
from cometmq.namesrv.kv_config import KvConfig


class FullDisk(Disk):
    def save(self, path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path), None, str(len(data)))


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    config = KvConfig(path)
    config.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4;broker-b:4")
    config.put("n", "k", "v")
    config.put("n", "k", "wü")
    again = KvConfig(path)
    assert again.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4;broker-b:4"
    assert again.table("n") == {"k": "wü"}


def test_what_was_deleted_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    config = KvConfig(path)
    config.put("n", "k", "v")
    config.delete("n", "k")
    config.delete("n", "k")
    config.delete("other", "k")
    for seen in (config, KvConfig(path)):
        assert seen.get("n", "k") is None
        assert seen.table("n") == {}, "the namespace stays, as in RocketMQ"
        assert seen.table("other") is None


def test_a_table_that_was_given_out_does_not_change() -> None:
    config = KvConfig()
    config.put("n", "k", "v")
    table = config.table("n")
    config.put("n", "k2", "v")
    assert table == {"k": "v"}


def test_the_file_of_a_java_name_server_is_read_and_written_in_its_form(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}')
    config = KvConfig(path)
    assert config.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"
    config.put("ORDER_TOPIC_CONFIG", "T", "broker-a:8")
    assert path.read_text() == '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:8"}}}'


@pytest.mark.parametrize("content", ["", '{"configTable":{"n":', "[]", '{"configTable":{"n":3}}'])
def test_a_damaged_file_is_named_with_the_remedy_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(content)
    with pytest.raises(StoreDamaged, match=r"kvConfig\.json.*move it away"):
        KvConfig(path)
    assert path.read_text() == content


def test_what_cannot_be_saved_is_not_set(tmp_path: Path) -> None:
    config = KvConfig(tmp_path / "kvConfig.json", FullDisk())
    with pytest.raises(OSError, match="No space left"):
        config.put("n", "k", "v")
    assert config.get("n", "k") is None and config.table("n") is None
