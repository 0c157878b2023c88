from pathlib import Path

import pytest
from tests.broker.conftest import serving
from tests.broker.halves import records

from cometmq.broker.state.deleted_topics import DeletedTopics

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


async def test_what_waits_belongs_to_the_topic_of_its_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(2):
            await bench.send("T", b"old", DELAY="1")
        await bench.send("U", b"other", DELAY="1")
        bench.store.delete_topic("T")
        await bench.send("T", b"new", DELAY="1")
        topics = DeletedTopics(bench.store)
        waiting = records(bench, SCHEDULE)
        assert [(one.body, topics.has_topic_of(one)) for one in waiting] == [
            (b"old", True),
            (b"old", True),
            (b"other", False),
            (b"new", False),
        ]
        assert sum("topic T was deleted while messages waited" in text for text in caplog.messages) == 1
