import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.store.conftest import new_message

from cometmq.format import layout, properties
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.spark.jobs.verify import verify
from cometmq.store import MessageStore, StoreSettings
from cometmq.store.verify import verify as verify_alone

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_each_store_is_checked_as_by_one_machine(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    damaged = Path(shutil.copytree(golden["store-clean"], tmp_path / "damaged"))
    with layout.commitlog_path(damaged, 0).open("r+b") as file:
        file.seek(8_161 + 100)
        file.write(b"\xff\xfe")
    stores = [golden["store-clean"], damaged, tmp_path / "nowhere", golden["store-killed"]]
    stores += [golden["store-light"], golden["store-light-killed"]]
    clean, broken, nowhere, killed, light, light_killed = verify(spark, stores)
    for checked, store in zip(
        (clean, broken, killed, light, light_killed), (*stores[:2], *stores[3:]), strict=True
    ):
        alone = verify_alone(store)
        assert (checked.store, checked.state) == (str(store), alone.state.value)
        assert (checked.messages, checked.bytes, checked.queues, checked.index_entries) == alone[2:]
        found = [(str(one.path), one.position, one.size, one.what, one.remedy) for one in alone.findings]
        places = [(one.path, one.position, one.size, one.what, one.remedy) for one in checked.findings]
        assert sorted(places, key=str) == sorted(found, key=str)
    assert (clean.is_bad, broken.is_bad, nowhere.is_bad, killed.is_bad) == (False, True, True, False)
    assert (light.state, light_killed.state) == ("sound", "needs recovery")
    assert (clean.damages, broken.damages > 0) == (0, True)
    assert nowhere.state == "unreadable" and "no such directory" in nowhere.error


def test_what_is_not_read_is_left_out_as_by_one_machine(
    spark: SparkSession, foreign: Mapping[str, Path]
) -> None:
    names = ["rocksdb-queues", "batch-queues", "rocksdb-timer"]
    *checked, raft = verify(spark, [foreign[name] for name in (*names, "dledger")])
    for found, name in zip(checked, names, strict=True):
        alone = verify_alone(foreign[name])
        assert (found.state, found.messages, found.queues) == ("sound", alone.messages, alone.queues)
        assert {one.what for one in found.findings} == {one.what for one in alone.findings} != set()
    assert raft.state == "unreadable" and "the log of a Raft group" in raft.error


def test_a_store_with_delay_levels_of_its_own_is_sound_without_its_settings(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = StoreSettings(mapped_file_size_commit_log=1 << 20, message_delay_level="3s 40s")
    with MessageStore.open(tmp_path, own) as store:
        for _ in range(3):
            named = properties.encode({"DELAY": "2"})
            store.append([new_message(SCHEDULE_TOPIC, 1)._replace(properties=named)])
    (checked,) = verify(spark, [tmp_path])
    assert (checked.state, checked.findings) == ("sound", [])
