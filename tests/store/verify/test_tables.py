"""Checkpoint and tables."""

import pytest
from tests.store.conftest import ROOT
from tests.store.verify.conftest import CHECKPOINT, checked, damages, overwrite

from cometmq.format import layout
from cometmq.store.files.finding import Severity
from cometmq.store.verify import State
from cometmq.testing.memory_disk import MemoryDisk

TOPICS = layout.config_path(ROOT, "topics")


@pytest.fixture(autouse=True)
def config(sound: MemoryDisk) -> None:
    sound.make_directory(layout.config_dir(ROOT))


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"", "is empty"), (b'{"a":', "JSON at character 5"), (b"[]", "no JSON object"), (b"\xff", "UTF-8")],
)
def test_a_table_that_cannot_be_read_is_told(sound: MemoryDisk, data: bytes, what: str) -> None:
    sound.save(TOPICS, data)
    (finding,) = damages(checked(sound))
    assert (finding.path, what in finding.what) == (TOPICS, True)
    assert "topics.json.bak in its place" in finding.remedy
    sound.save(TOPICS, b'{"topicConfigTable":{"Orders":{0:1}}}')
    sound.save(layout.backup_path(TOPICS), data)
    (finding,) = damages(checked(sound))
    assert finding.path == layout.backup_path(TOPICS)


def test_a_checkpoint_of_the_wrong_length_is_told(sound: MemoryDisk) -> None:
    sound.put(CHECKPOINT, sound.load(CHECKPOINT)[:10])
    (finding,) = damages(checked(sound))
    assert "has 10 bytes, expected 4096" in finding.what


def test_a_checkpoint_before_the_epoch_is_told(sound: MemoryDisk) -> None:
    overwrite(sound, CHECKPOINT, 8, b"\xff")
    (finding,) = damages(checked(sound))
    assert (finding.position, "logics_msg_timestamp is -" in finding.what) == (8, True)


def test_a_checkpoint_ahead_of_the_log_is_a_note(sound: MemoryDisk) -> None:
    overwrite(sound, CHECKPOINT, 0, b"\x01")
    verified = checked(sound)
    assert verified.state is State.SOUND
    assert [finding.severity for finding in verified.findings] == [Severity.NOTE]
