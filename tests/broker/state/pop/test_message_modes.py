from pathlib import Path

import pytest

from cometmq.broker.state.pop.message_modes import RequestModes
from cometmq.errors import StoreDamaged
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import MessageModeRequest, RequestMode

JAVA = (
    '{"messageRequestModeMap":{"TopicC":{"cgpop":{"consumerGroup":"cgpop","mode":"POP","popShareQueueNum":8,'
    '"topic":"TopicC"}}}}'
)
MODE = MessageModeRequest("TopicC", "cgpop", RequestMode.POP, 8)


@pytest.fixture
def table(tmp_path: Path) -> JsonTable:
    (tmp_path / "config").mkdir()
    return JsonTable(Disk(), layout.config_path(tmp_path, "messageRequestMode"))


def test_modes_that_a_java_broker_wrote_are_read(table: JsonTable) -> None:
    table.path.write_text(JAVA)
    modes = RequestModes(table)
    modes.load()
    assert modes.find("TopicC", "cgpop") == MODE
    assert modes.find("TopicC", "other") is modes.find("other", "cgpop") is None


def test_modes_are_written_as_a_java_broker_does(table: JsonTable) -> None:
    modes = RequestModes(table)
    modes.load()
    modes.put("TopicC", "cgpop", MODE)
    modes.put("gone", "g", MODE)
    assert modes.delete("gone") and not modes.delete("gone")
    modes.put("TopicC", "other", MODE)
    modes.put("TopicC", "other", None)
    modes.save()
    text = table.path.read_text().replace("\n", "").replace("\t", "")
    assert text == JAVA
    assert not modes.changed


def test_a_file_of_something_else_is_refused_with_the_remedy(table: JsonTable) -> None:
    table.path.write_text('{"messageRequestModeMap":5}')
    with pytest.raises(StoreDamaged, match="repair the file"):
        RequestModes(table).load()
