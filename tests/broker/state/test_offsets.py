import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from cometmq.broker.state.offsets import AHEAD_WARNINGS_MAX, Offsets, key_of
from cometmq.errors import StoreNotWritable
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable

MANY = 1_000_000


def load(directory: Path, limit: int = MANY) -> Offsets:
    offsets = Offsets(JsonTable(Disk(), directory / "consumerOffset.json"), ManualClock())
    offsets.load(lambda _topic, _queue_id: limit)
    return offsets


def test_a_real_brokers_offsets_are_read_and_written_again_equal(
    golden: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "consumerOffset.json"
    content = (golden["store-clean"] / "config" / path.name).read_text()
    path.write_text(content)
    offsets = load(tmp_path)
    assert offsets.committed("GoldenGroupFull", "GoldenA", 3) == 238
    offsets.commit("GoldenGroupFull", "GoldenA", 3, 239)
    offsets.save()
    ours, real = path.read_text(), content.replace("3:238", "3:239")
    assert ours[ours.index('"offsetTable"') :] == real[real.index('"offsetTable"') :]
    head, real_head = (text[: text.index('"groupTopicMap"')] for text in (ours, real))
    assert head == real_head


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 0, 4)
    offsets.save()
    again = load(tmp_path)
    assert again.committed("g", "T", 0) == 4
    assert again.committed("g", "T", 1) is None and again.committed("x", "T", 0) is None


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.save()
    assert list(tmp_path.iterdir()) == []
    offsets.commit("g", "T", 0, 5)
    assert offsets.take_changed() is not None
    assert offsets.take_changed() is None


def test_a_write_that_fails_is_due_again(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.commit("g", "T", 0, 5)
    (tmp_path / "consumerOffset.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        offsets.save()
    (tmp_path / "consumerOffset.json").rmdir()
    offsets.save()
    assert load(tmp_path).committed("g", "T", 0) == 5


def test_an_offset_beyond_the_recovered_queue_is_set_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = load(tmp_path)
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 1, 2)
    offsets.save()
    again = load(tmp_path, limit=3)
    assert (again.committed("g", "T", 0), again.committed("g", "T", 1)) == (3, 2)
    assert "committed 5, but the queue ends at 3" in caplog.text
    again.save()
    assert json.loads(
        (tmp_path / "consumerOffset.json").read_text().replace("0:3", '"0":3').replace("1:2", '"1":2')
    )


def test_topics_and_groups_are_found_from_each_other_and_deleted(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    for group, topic in (("g", "T"), ("g", "TT"), ("gg", "T")):
        offsets.commit(group, topic, 0, 1)
        offsets.record_pulls([(key_of(group, topic), 0, -1, 1, 2)])
    assert offsets.groups_of("T") == {"g", "gg"} and offsets.topics_of("g") == {"T", "TT"}
    offsets.delete_topics(["T"])
    assert offsets.topics_of("g") == {"TT"} and offsets.topics_of("gg") == set()
    assert offsets.pulled("gg", "T", 0) is None and offsets.pulled("g", "TT", 0) == 2
    offsets.delete_group("g")
    assert offsets.keys() == []


def test_offsets_in_one_queue_are_forgotten(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    for group, topic, queue_id in (("g", "T", 0), ("g", "T", 1), ("gg", "T", 0), ("g", "TT", 0)):
        offsets.commit(group, topic, queue_id, 1)
        offsets.record_pulls([(key_of(group, topic), queue_id, -1, 1, 2)])
    offsets.delete_queue("T", 0)
    left = {(g, t, q) for g in ("g", "gg") for t in ("T", "TT") for q in (0, 1) if offsets.committed(g, t, q)}
    assert left == {("g", "T", 1), ("g", "TT", 0)}
    assert offsets.pulled("gg", "T", 0) is None and offsets.pulled("g", "T", 1) == 2
    assert offsets.groups_of("T") == {"g"}


def test_after_a_reset_no_commit_counts_until_the_group_has_heard_of_it(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.commit("g", "T", 0, 7)
    offsets.reset("g", "T", 0, 3)
    offsets.commit("g", "T", 0, 8)
    offsets.commit("g", "T", 1, 8)
    assert (offsets.committed("g", "T", 0), offsets.committed("g", "T", 1)) == (3, 8)
    offsets.reset("g", "T", 0, 5)
    assert offsets.pop_reset("g", "T", 1) is None
    assert (offsets.pop_reset("g", "T", 0), offsets.pop_reset("g", "T", 0)) == (5, None)
    offsets.commit("g", "T", 0, 6)
    assert offsets.committed("g", "T", 0) == 6


def test_after_a_reset_nothing_is_in_flight(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    for queue_id in (0, 1):
        offsets.record_pulls([("T@g", queue_id, -1, 0, 9)])
    offsets.reset("g", "T", 0, 3)
    offsets.reset("other", "T", 0, 3)
    assert (offsets.pulled("g", "T", 0), offsets.pulled("g", "T", 1)) == (None, 9)


def test_a_reset_of_a_topic_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.reset("g", "T", 0, 3)
    offsets.delete_topics(["T"])
    assert offsets.pop_reset("g", "T", 0) is None


def test_a_reset_is_known_until_it_is_taken(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.reset("g", "T", 0, 5)
    key = key_of("g", "T")
    assert offsets.has_reset(key, 0) and not offsets.has_reset(key, 1)
    assert not offsets.has_reset(key_of("h", "T"), 0)
    assert offsets.pop_reset("g", "T", 0) == 5
    assert not offsets.has_reset(key, 0)


def test_the_offsets_of_a_deletion_are_told(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    deleted: list[str] = []
    offsets.on_delete.append(deleted.extend)
    offsets.commit("g", "T", 2, 7)
    offsets.commit("h", "T", 0, 1)
    assert dict(offsets.queues_of(key_of("g", "T"))) == {2: 7}
    offsets.delete_group("g")
    assert deleted == [key_of("g", "T")] and not offsets.queues_of(key_of("g", "T"))
    offsets.delete_topics(["T"])
    assert deleted == [key_of("g", "T"), key_of("h", "T")]


def test_a_clone_goes_its_own_way(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.commit("g", "T", 0, 7)
    offsets.clone("g", "h", "T")
    offsets.clone("nobody", "g", "T")
    offsets.commit("g", "T", 0, 9)
    assert (offsets.committed("g", "T", 0), offsets.committed("h", "T", 0)) == (9, 7)


def test_many_pulls_are_noted_as_one_by_one(tmp_path: Path) -> None:
    offsets, others = load(tmp_path), load(tmp_path)
    key = key_of("g", "T")
    offsets.record_pulls([(key, 0, 5, 5, 8), (key, 1, -1, 0, 3), (key, 2, 7, 7, -1), (key, 0, 6, 8, 9)])
    for queue_id, offset in [(0, 5), (2, 7), (0, 6)]:
        others.commit("g", "T", queue_id, offset)
    assert offsets.copies(offsets.keys()) == others.copies(others.keys()) != {}
    assert [offsets.pulled("g", "T", queue_id) for queue_id in range(3)] == [9, 3, None]
    assert offsets.take_changed() is not None


def test_a_reset_waits_for_the_groups_next_pull_of_its_queue(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    assert not offsets.is_any_reset
    offsets.reset("g", "T", 1, 5)
    assert offsets.pop_reset("h", "T", 1) is None and offsets.pop_reset("g", "T", 0) is None
    assert offsets.is_any_reset
    assert offsets.pop_reset("g", "T", 1) == 5
    assert not offsets.is_any_reset


def test_a_commit_ahead_of_the_queues_end_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = load(tmp_path, limit=1)
    for offset in (1, 101, 101, 102):
        offsets.commit("g", "T", 0, offset)
    assert offsets.committed("g", "T", 0) == 102
    (warning,) = caplog.messages
    assert warning.startswith(
        "group g has committed 101 in queue 0 of T, which ends at 1: it is ahead by 100"
    )
    offsets.commit("g", "T", 0, 0)
    offsets.commit("g", "T", 0, 3)
    assert "ahead by 2" in caplog.messages[-1]


def test_warnings_of_commits_ahead_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    offsets = load(tmp_path, limit=0)
    for queue_id in range(AHEAD_WARNINGS_MAX + 50):
        offsets.commit("g", "T", queue_id, 1)
    assert len(caplog.messages) == AHEAD_WARNINGS_MAX


def test_a_negative_offset_in_the_table_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"T@g":{0:-1,1:2}}}')
    offsets = load(tmp_path)
    assert (offsets.committed("g", "T", 0), offsets.committed("g", "T", 1)) == (None, 2)
    assert "T@g queue 0: committed offset -1 is negative and dropped" in caplog.text
    offsets.save()
    assert "-1" not in path.read_text()


@pytest.mark.parametrize("deleted", ["topic", "queue", "group"])
def test_a_topic_or_group_made_anew_is_warned_of_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, deleted: str
) -> None:
    offsets = load(tmp_path, limit=0)
    offsets.commit("g", "T", 0, 1)
    {
        "topic": lambda: offsets.delete_topics(["T"]),
        "queue": lambda: offsets.delete_queue("T", 0),
        "group": lambda: offsets.delete_group("g"),
    }[deleted]()
    offsets.commit("g", "T", 0, 1)
    assert len(caplog.messages) == 2


def test_the_pulled_offsets_of_all_groups_are_seen_as_they_change(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    pulled = offsets.all_pulled()
    offsets.record_pulls([("T@g", 0, -1, 0, 5)])
    offsets.record_pulls([("T@g", 0, -1, 5, 7), ("T@g", 1, -1, 0, 2)])
    assert pulled == {"T@g": {0: 7, 1: 2}}


def test_where_a_group_began_to_pull_is_kept_until_it_commits(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.commit("g", "T", 2, 1)
    offsets.record_pulls([("T@g", 0, -1, 4, 7), ("T@g", 0, -1, 7, 9), ("T@g", 2, -1, 1, 9)])
    offsets.record_begun("T@g", 1, 6)
    offsets.record_begun("T@g", 1, 8)
    assert offsets.begun_of("T@g") == {0: 4, 1: 6}
    offsets.commit("g", "T", 0, 5)
    offsets.record_pulls([("T@g", 1, 7, 9, 10)])
    assert offsets.begun_of("T@g") == {} and offsets._begun == {}


@pytest.mark.parametrize("gone", ["forgotten", "topic", "queue", "group"])
def test_where_a_group_began_to_pull_goes_with_the_group_the_topic_and_the_queue(
    tmp_path: Path, gone: str
) -> None:
    offsets = load(tmp_path)
    offsets.record_pulls([("T@g", 0, -1, 4, 7)])
    {
        "forgotten": lambda: offsets.forget_begun("g"),
        "topic": lambda: offsets.delete_topics(["T"]),
        "queue": lambda: offsets.delete_queue("T", 0),
        "group": lambda: offsets.delete_group("g"),
    }[gone]()
    assert offsets._begun == {}


def test_a_pop_moves_the_offset_unless_a_reset_waits(tmp_path: Path) -> None:
    offsets = load(tmp_path)
    offsets.move_popped("T@g", 0, 6)
    assert (offsets.committed("g", "T", 0), offsets.pulled("g", "T", 0)) == (6, 6)
    offsets.reset("g", "T", 0, 2)
    offsets.move_popped("T@g", 0, 8)
    assert (offsets.committed("g", "T", 0), offsets.pulled("g", "T", 0)) == (2, 8)


@pytest.mark.parametrize(
    "commit",
    [
        lambda offsets: offsets.commit_with_log("g", "T", 0, 6),
        lambda offsets: offsets.move_popped("T@g", 0, 6),
    ],
)
def test_an_offset_of_a_pop_is_saved_once_the_log_is_synced_and_others_at_once(
    tmp_path: Path, commit: Callable[[Offsets], None]
) -> None:
    syncs: list[Future[None]] = []

    def sync() -> Future[None]:
        syncs.append(Future())
        return syncs[-1]

    offsets = Offsets(JsonTable(Disk(), tmp_path / "consumerOffset.json"), ManualClock())
    offsets.load(lambda _topic, _queue_id: MANY, sync)
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    assert syncs == []
    commit(offsets)
    changes = offsets.take_changed()
    assert changes is not None and len(syncs) == 1
    syncs[0].set_exception(StoreNotWritable("the log cannot be synced"))
    with pytest.raises(StoreNotWritable, match="the log cannot be synced"):
        offsets.write(changes)
    assert load(tmp_path).committed("g", "T", 0) == 5, "its check point may not be on the disk"
    changes = offsets.take_changed()
    assert changes is not None and len(syncs) == 2
    syncs[1].set_result(None)
    offsets.write(changes)
    assert load(tmp_path).committed("g", "T", 0) == 6
