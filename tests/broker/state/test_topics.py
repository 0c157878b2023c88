import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import pull_header, serving

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import (
    READ_WRITE,
    Topics,
    boot_topics,
    is_legal,
    is_system_topic,
)
from cometmq.cluster.system_names import AUTO_CREATE_TOPIC
from cometmq.errors import IllegalName, StoreDamaged, StoreNotWritable
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, TopicConfig, TopicTable
from cometmq.wire.codes import RequestCode, ResponseCode

SETTINGS = BrokerSettings.of(broker_name="broker-a")


def load(directory: Path, settings: BrokerSettings = SETTINGS) -> Topics:
    topics = Topics(
        JsonTable(Disk(), directory / "topics.json"),
        ManualClock(),
        boot_topics(settings),
        auto_create=settings.topics.auto_create_topic_enable,
    )
    topics.load()
    return topics


async def test_a_real_brokers_topics_are_read_and_written_again_equal(
    golden: dict[str, Path], tmp_path: Path
) -> None:
    content = (golden["store-clean"] / "config" / "topics.json").read_bytes()
    (tmp_path / "topics.json").write_bytes(content)
    topics = load(tmp_path)
    assert topics.data_version.counter == 7
    golden_b = topics.find("GoldenB")
    assert golden_b is not None and golden_b.write_queue_count == 8
    topics.put(replace(golden_b, perm=4))
    await topics.settled()
    written = (tmp_path / "topics.json").read_bytes()
    real, ours = json.loads(content), json.loads(written)
    real["dataVersion"] = ours["dataVersion"]
    real["topicConfigTable"]["GoldenB"]["perm"] = 4
    assert ours == real
    assert ours["dataVersion"]["counter"] == 8
    start = (
        b'{\n\t"dataVersion":{\n\t\t"counter":8,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000000000\n\t},'
    )
    assert written.startswith(start)


def test_the_topics_of_the_boot_are_there_but_not_written(tmp_path: Path) -> None:
    topics = load(tmp_path)
    names = {topic.topic for topic in topics}
    assert names >= {"TBW102", "SELF_TEST_TOPIC", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"}
    assert not (tmp_path / "topics.json").exists()


def test_a_host_name_with_dots_makes_no_topic() -> None:
    names = {topic.topic for topic in boot_topics(BrokerSettings.of(broker_name="host.example.org"))}
    assert not any("host" in name for name in names)


async def test_a_send_creates_its_topic_after_the_pattern(tmp_path: Path) -> None:
    topics = load(tmp_path)
    told: list[int] = []
    topics.on_change.append(lambda _: told.append(topics.data_version.counter))
    created = topics.create_by_send("T", pattern=AUTO_CREATE_TOPIC, queue_count=4)
    assert created == TopicConfig(topic="T", read_queue_count=4, write_queue_count=4, perm=READ_WRITE)
    assert told == [1]
    await topics.settled()
    assert load(tmp_path).find("T") == created


async def test_a_new_topic_has_no_more_queues_than_the_pattern(tmp_path: Path) -> None:
    created = load(tmp_path).create_by_send("T", pattern=AUTO_CREATE_TOPIC, queue_count=100)
    assert created is not None and created.write_queue_count == SETTINGS.topics.default_topic_queue_nums


@pytest.mark.parametrize("pattern", ["nothing", "SELF_TEST_TOPIC"])
def test_only_a_pattern_makes_topics(tmp_path: Path, pattern: str) -> None:
    assert load(tmp_path).create_by_send("T", pattern=pattern, queue_count=4) is None


async def test_without_auto_creation_there_is_no_pattern_even_if_there_was_one(tmp_path: Path) -> None:
    before = load(tmp_path)
    before.put(TopicConfig(topic="T"))
    await before.settled()
    topics = load(tmp_path, SETTINGS.changed(auto_create_topic_enable=False))
    assert topics.find(AUTO_CREATE_TOPIC) is None, "the file has it from before"
    assert topics.create_by_send("U", pattern=AUTO_CREATE_TOPIC, queue_count=4) is None
    names = {topic.topic for topic in boot_topics(SETTINGS.changed(auto_create_topic_enable=False))}
    assert AUTO_CREATE_TOPIC not in names


async def test_the_pattern_topic_follows_the_settings(tmp_path: Path) -> None:
    topics = load(tmp_path, SETTINGS.changed(auto_create_topic_enable=False))
    topics.follow(SETTINGS)
    assert topics.find(AUTO_CREATE_TOPIC) in boot_topics(SETTINGS)
    assert topics.create_by_send("T", pattern=AUTO_CREATE_TOPIC, queue_count=4) is not None
    topics.follow(SETTINGS.changed(auto_create_topic_enable=False))
    assert topics.create_by_send("U", pattern=AUTO_CREATE_TOPIC, queue_count=4) is None


async def test_a_retry_topic_is_made_once(tmp_path: Path) -> None:
    topics = load(tmp_path)
    first = topics.find_or_create("%RETRY%g")
    assert topics.find_or_create("%RETRY%g", 5) is first
    assert (first.read_queue_count, first.perm) == (1, READ_WRITE)


async def test_a_deleted_topic_is_gone_for_good(tmp_path: Path) -> None:
    topics = load(tmp_path)
    topics.put(TopicConfig(topic="T"))
    topics.delete(["T"])
    topics.delete(["T"])
    await topics.settled()
    assert topics.find("T") is None and load(tmp_path).find("T") is None
    assert topics.data_version.counter == 2


async def test_putting_what_is_there_changes_nothing(tmp_path: Path) -> None:
    topics = load(tmp_path)
    topics.put(TopicConfig(topic="T"))
    topics.put(TopicConfig(topic="T"))
    assert topics.data_version.counter == 1


@pytest.mark.parametrize("name", ["", "..", "a/b", "a" * 128])
def test_a_name_that_could_leave_the_store_is_refused(tmp_path: Path, name: str) -> None:
    topics = load(tmp_path)
    with pytest.raises(IllegalName):
        topics.put(TopicConfig(topic=name))
    assert topics.find(name) is None


def test_an_illegal_name_in_the_file_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = {name: {"topicName": name} for name in ("../x", "T")}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    topics = load(tmp_path)
    assert topics.find("T") is not None and topics.find("../x") is None
    assert "../x" in caplog.text


def test_a_file_of_something_else_is_damage(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"topicConfigTable":[1]}')
    with pytest.raises(StoreDamaged, match=r"topics\.json.*repair"):
        load(tmp_path)


async def test_when_the_disk_refuses_nothing_changes(tmp_path: Path) -> None:
    topics = load(tmp_path)
    topics.put(TopicConfig(topic="Old"))
    await topics.settled()
    (tmp_path / "topics.json").unlink()
    (tmp_path / "topics.json").mkdir()  # a file cannot be renamed over it
    told: list[object] = []
    topics.put(TopicConfig(topic="T"))
    topics.put(TopicConfig(topic="Old", perm=4))
    topics.when_published(["T"], told.append)
    topics.when_published(["Old"], told.append)
    await topics.settled()
    assert topics.find("T") is None and topics.find("Old") == TopicConfig(topic="Old")
    assert [type(error) for error in told] == [StoreNotWritable, StoreNotWritable]
    topics.when_published(["T"], told.append)
    assert told[2:] == [None], "nothing is left to save"


async def test_what_reading_needs_is_there_though_the_disk_refuses_and_is_saved_later(tmp_path: Path) -> None:
    topics = load(tmp_path)
    (tmp_path / "topics.json").mkdir()
    topics.find_or_create("%RETRY%g", optional=True)
    topics.put(TopicConfig(topic="T"))
    await topics.settled()
    assert topics.find("%RETRY%g") is not None and topics.find("T") is None
    (tmp_path / "topics.json").rmdir()
    await topics.stop()
    assert load(tmp_path).find("%RETRY%g") is not None and load(tmp_path).find("T") is None


def test_system_topics_are_known_by_name_and_prefix() -> None:
    assert is_system_topic("TBW102") and is_system_topic("rmq_sys_anything")
    assert not is_system_topic("T")
    assert is_legal("T") and not is_legal("a.b")


async def test_many_topics_are_one_change_or_none(tmp_path: Path) -> None:
    topics = load(tmp_path)
    many = [TopicConfig(topic=f"T{n}") for n in range(1_000)]
    topics.put_all(many)
    assert topics.data_version.counter == 1 and topics.find("T999") == many[999]
    topics.put_all(many[:5])
    assert topics.data_version.counter == 1
    with pytest.raises(IllegalName):
        topics.put_all([TopicConfig(topic="New"), TopicConfig(topic="../x")])
    assert topics.find("New") is None and topics.data_version.counter == 1


@pytest.mark.parametrize(("perm", "can_pull"), [(6, True), (2, False), (4, True), (0, False)])
async def test_perm_hides_a_topic_from_producers_and_closes_it_to_consumers(
    tmp_path: Path, perm: int, *, can_pull: bool
) -> None:
    """As with RocketMQ: only the route keeps producers away, who asks the broker itself may send."""

    async with serving(tmp_path) as bench:
        await bench.send("T")
        topic = bench.parts.topics.find("T")
        assert topic is not None
        bench.parts.topics.put(replace(topic, perm=perm))
        assert (await bench.send("T")).code == ResponseCode.SUCCESS
        pulled = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        assert pulled.code == (ResponseCode.SUCCESS if can_pull else ResponseCode.NO_PERMISSION)


@pytest.mark.parametrize(("read", "write"), [(2, 4), (4, 2)])
async def test_the_larger_of_read_and_write_queues_can_be_sent_to_and_the_read_queues_be_read(
    tmp_path: Path, read: int, write: int
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        topic = bench.parts.topics.find("T")
        assert topic is not None
        bench.parts.topics.put(replace(topic, read_queue_count=read, write_queue_count=write))
        for queue_id in range(6):
            sent = await bench.send("T", queue_id=queue_id)
            assert sent.code == (ResponseCode.SUCCESS if queue_id < 4 else ResponseCode.INVALID_PARAMETER), (
                queue_id
            )
            pulled = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", queue_id=queue_id))
            assert (pulled.code != ResponseCode.INVALID_PARAMETER) is (queue_id < read), queue_id
        any_queue = [int((await bench.send("T", queue_id=-1)).ext_fields["queueId"]) for _ in range(8)]
        assert set(any_queue) == set(range(write))


async def test_what_is_a_pattern_follows_the_settings_and_not_the_file(tmp_path: Path) -> None:
    topics = load(tmp_path)
    topics.put(TopicConfig(topic="T", read_queue_count=1, write_queue_count=1, perm=READ_WRITE))
    await topics.settled()
    cluster = topics.find(SETTINGS.identity.broker_cluster_name)
    assert cluster is not None and cluster.perm == 7
    off = SETTINGS.changed(
        auto_create_topic_enable=False, cluster_topic_enable=False, broker_topic_enable=False
    )
    again = load(tmp_path, off)
    assert again.find(AUTO_CREATE_TOPIC) is None
    for name in (SETTINGS.identity.broker_cluster_name, "broker-a"):
        assert (again.find(name) or cluster).perm == READ_WRITE
        assert again.create_by_send("U", pattern=name, queue_count=1) is None
    assert again.data_version.counter == topics.data_version.counter + 1, "name servers must hear of it"
    more = load(tmp_path, SETTINGS.changed(default_topic_queue_nums=16)).find(AUTO_CREATE_TOPIC)
    assert more is not None and more.write_queue_count == 16
    assert load(tmp_path).data_version.counter == topics.data_version.counter


@pytest.mark.parametrize(
    ("counts", "perm", "mended"),
    [
        ((-5, 4), 6, (0, 4, 6)),
        ((4, 2_000_000_000), 6, (4, 65_535, 6)),
        ((1, 1), 4096 + 6, (1, 1, 6)),
        ((1, 1), -1, (1, 1, 6)),
    ],
)
def test_absurd_counts_and_perms_in_the_file_are_not_passed_on(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    counts: tuple[int, int],
    perm: int,
    mended: tuple[int, int, int],
) -> None:
    entry = {"topicName": "T", "readQueueNums": counts[0], "writeQueueNums": counts[1], "perm": perm}
    (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": {"T": entry}}))
    topic = load(tmp_path).find("T")
    assert topic is not None
    assert (topic.read_queue_count, topic.write_queue_count, topic.perm) == mended
    assert f"topic T has readQueueNums {counts[0]}, writeQueueNums {counts[1]} and perm {perm}" in caplog.text


async def test_absurd_counts_of_a_master_are_not_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = load(tmp_path)
    entry = TopicConfig("T", 2**31 - 1, -1)
    topics.follow_master(TopicTable(DataVersion(9, 0, 9), {"T": entry}))
    topic = topics.find("T")
    assert topic is not None and (topic.read_queue_count, topic.write_queue_count) == (65_535, 0)
    assert "the master's topics: topic T has readQueueNums 2147483647" in caplog.text
    await topics.settled()


async def test_a_groups_absurd_count_makes_no_absurd_topic(tmp_path: Path) -> None:
    topics = load(tmp_path)
    assert topics.find_or_create("%RETRY%g", 2_000_000_000).read_queue_count == 65_535
    await topics.settled()


def test_topics_are_registered_as_of_a_masters_epoch(tmp_path: Path) -> None:
    topics = load(tmp_path)
    before = topics.data_version
    topics.enter_epoch(7)
    assert topics.data_version.state_version == 7 and topics.data_version.counter == before.counter + 1
