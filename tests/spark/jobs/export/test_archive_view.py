"""Archives and live topics as one; ``test_archive.py`` has the view over files."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.live import BROKER, in_thread
from tests.spark.live.conftest import Topics

from cometmq.spark.jobs.export.archive import archive
from cometmq.spark.jobs.export.archive_view import with_files, with_live

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

MESSAGES = 400
BODY = bytes(8_000)
"""So that they take three CommitLog files of 1 MiB and a part of a fourth."""


def test_each_message_is_seen_once_however_far_the_archive_goes(spark: SparkSession, tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    with in_thread(store) as live:
        topics = Topics(live.name_server)
        topics.create("orders")
        topics.create("young")
        for queue_id in (0, 1):
            for _ in range(MESSAGES // 2 // 50):
                topics.send("orders", [BODY] * 50, queue_id)
        done = archive(spark, store, target)
        assert done.files >= 3
        topics.send("young", [b"later"])
        frame = with_live(
            spark,
            {BROKER: target},
            live.name_server,
            ["orders", "young"],
            columns=["Topic", "queue_id", "queue_offset", "broker"],
        )
        seen = sorted(frame.collect())
        files = with_files(spark, target, store, topics=["orders", "young"], columns=["Physical_Offset"])
        places = [row["physical_offset"] for row in files.collect()]
    assert {row["broker"] for row in seen} == {BROKER}
    assert len(set(seen)) == len(seen)  # there may be more than were sent: a slow send is repeated
    for queue, least in ((("orders", 0), MESSAGES // 2), (("orders", 1), MESSAGES // 2), (("young", 0), 1)):
        offsets = [row["queue_offset"] for row in seen if (row["topic"], row["queue_id"]) == queue]
        assert offsets == list(range(len(offsets))) and len(offsets) >= least
    assert len(set(places)) == len(places) == len(seen) > done.messages
