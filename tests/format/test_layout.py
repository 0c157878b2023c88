from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError, IllegalName
from cometmq.format import layout

ROOT = Path("store")
NAMES = st.from_regex(r"[%|a-zA-Z0-9_-]+", fullmatch=True)
ANY_TEXT = st.text() | st.sampled_from(["..", ".", "", "../../x", "a/b", "/etc", "a\0b"])
ZONES = [UTC, timezone(timedelta(hours=8)), timezone(-timedelta(hours=3, minutes=30)), None]


def made_paths(root: Path) -> Iterator[Path]:
    """Build the path of each file of a store, from nothing but what its name means."""
    for path in (layout.commitlog_dir(root)).iterdir():
        yield layout.commitlog_path(root, layout.parse_offset_name(path.name))
    for topic in layout.consume_queues_dir(root).iterdir():
        for queue in layout.topic_dir(root, layout.valid_topic(topic.name)).iterdir():
            for path in queue.iterdir():
                offset = layout.parse_offset_name(path.name)
                yield layout.consume_queue_path(root, topic.name, layout.parse_queue_id(queue.name), offset)
    for path in layout.index_dir(root).iterdir():
        yield layout.index_path(root, layout.parse_index_name(path.name, UTC), UTC)
    if layout.timer_log_dir(root).exists():
        for path in layout.timer_log_dir(root).iterdir():
            yield layout.timer_log_dir(root) / layout.offset_name(layout.parse_offset_name(path.name))
    tables = ["topics", "subscriptionGroup", "consumerOffset", "delayOffset", "consumerFilter"]
    for name in [*tables, "consumerOrderInfo"]:
        yield layout.config_path(root, name)
        yield layout.backup_path(layout.config_path(root, name))
    yield layout.timer_wheel_path(root)
    yield layout.timer_checkpoint_path(root)
    yield layout.checkpoint_path(root)
    yield layout.lock_path(root)


@pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])
def test_a_real_brokers_files_are_where_they_are_made_to_be(golden: Mapping[str, Path], store: str) -> None:
    root = golden[store]
    metrics = {"timermetrics", "transactionMetrics"}
    there = {
        path
        for path in root.rglob("*")
        if path.is_file() and path.stem not in metrics and path.stem != "abort"
    }
    assert set(made_paths(root)) == there
    assert layout.abort_path(root).exists() == (store == "store-killed")


@given(st.integers(0, 2**63 - 1))
def test_an_offset_is_read_back_from_its_name(offset: int) -> None:
    name = layout.offset_name(offset)
    assert len(name) == 20
    assert layout.parse_offset_name(name) == offset


@pytest.mark.parametrize(
    "name", ["", "0", "0" * 21, "-" + "0" * 19, "x" * 20, "٠" * 20, "9" * 20, "0" * 19 + "\n"]
)
def test_a_name_that_is_no_offset_is_an_error(name: str) -> None:
    with pytest.raises(FormatError, match="20 decimal digits"):
        layout.parse_offset_name(name)


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_an_offset_that_no_file_has_is_an_error(offset: int) -> None:
    with pytest.raises(FormatError, match="must be 0 to"):
        layout.offset_name(offset)


@given(st.integers(0, 4_000_000_000_000), st.sampled_from(ZONES[:3]))
def test_the_time_is_read_back_from_an_index_files_name(time_ms: int, tz: tzinfo) -> None:
    assert layout.parse_index_name(layout.index_name(time_ms, tz), tz) == time_ms


def test_an_index_file_is_named_by_the_time_of_its_zone() -> None:
    time_ms = 1_795_245_155_826
    assert [layout.index_name(time_ms, tz) for tz in ZONES[:3]] == [
        "20261121071235826",
        "20261121151235826",
        "20261121034235826",
    ]


def test_an_index_file_is_named_by_local_time_unless_told() -> None:
    time_ms = 1_795_245_155_826
    assert layout.parse_index_name(layout.index_name(time_ms)) == time_ms


@pytest.mark.parametrize("name", ["", "2026112107123582", "20261321071235826", "2026112107123582x", "0" * 17])
def test_a_name_that_is_no_time_is_an_error(name: str) -> None:
    with pytest.raises(FormatError, match="yyyyMMddHHmmssSSS"):
        layout.parse_index_name(name, UTC)


@pytest.mark.parametrize("name", ["", "01", "-1", "x", "12345678901", "1\n"])
def test_a_directory_that_is_no_queue_id_is_an_error(name: str) -> None:
    with pytest.raises(FormatError, match="queue id"):
        layout.parse_queue_id(name)


@pytest.mark.parametrize("valid", [layout.valid_topic, layout.valid_group])
@pytest.mark.parametrize("name", ["a", "TopicA", "%RETRY%group", "a|b-c_d%9", "x" * 127])
def test_a_legal_name_is_given_back(valid: Callable[[str], str], name: str) -> None:
    assert valid(name) == name


def test_only_a_retry_topic_of_pops_has_a_plus_between_group_and_topic() -> None:
    assert layout.valid_topic("%RETRY%group+topic") == "%RETRY%group+topic"
    for name in ("a+b", "%RETRY%+topic", "%RETRY%group+", "%RETRY%a+b+c", "%DLQ%a+b"):
        with pytest.raises(IllegalName, match="use only the characters"):
            layout.valid_topic(name)
    with pytest.raises(IllegalName, match="use only the characters"):
        layout.valid_group("%RETRY%group+topic")


@pytest.mark.parametrize("valid", [layout.valid_topic, layout.valid_group])
@pytest.mark.parametrize(
    "name", ["../../x", ".", "..", "a b", "a.b", "主题", "a\n", "a\0", "a/b", "a$b", "a@b"]
)
def test_a_name_with_other_characters_is_an_error(valid: Callable[[str], str], name: str) -> None:
    with pytest.raises(IllegalName, match="use only the characters") as error:
        valid(name)
    assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    ("valid", "prefix", "length_max"),
    [
        (layout.valid_topic, "", 127),
        (layout.valid_topic, "%RETRY%", 255),
        (layout.valid_topic, "%DLQ%", 255),
        (layout.valid_group, "", 248),
    ],
)
def test_a_name_is_as_long_as_its_kind_may_be(
    valid: Callable[[str], str], prefix: str, length_max: int
) -> None:
    longest = prefix.ljust(length_max, "x")
    assert valid(longest) == longest
    with pytest.raises(
        IllegalName, match=f"has {length_max + 1} characters: shorten it to at most {length_max}"
    ):
        valid(longest + "x")


@pytest.mark.parametrize("name", ["%LMQ%a", "%LMQ%$parent$lite", "%LMQ%a.b \xe9", "%LMQ%" + "x" * 250])
def test_a_light_queue_has_a_directory_whatever_its_name(name: str) -> None:
    assert layout.is_light(name) and layout.queues_name(name) == name
    assert layout.consume_queue_dir(ROOT, name, 0) == ROOT / "consumequeue" / name / "0"


@pytest.mark.parametrize("name", ["LMQ", "$a", "x%LMQ%", "%LMQ%a/b", "%LMQ%\0", "%LMQ%" + "x" * 251])
def test_no_other_name_is_that_of_a_light_queue(name: str) -> None:
    assert not layout.is_light(name)


@pytest.mark.parametrize("valid", [layout.valid_topic, layout.valid_group])
def test_an_empty_name_is_an_error(valid: Callable[[str], str]) -> None:
    with pytest.raises(IllegalName, match="is empty"):
        valid("")


@given(ANY_TEXT | NAMES, st.integers(0, 2**31 - 1))
def test_no_topic_leads_out_of_the_store(topic: str, queue_id: int) -> None:
    try:
        path = layout.consume_queue_dir(ROOT, topic, queue_id)
    except IllegalName:
        return
    assert path.parts == ("store", "consumequeue", topic, str(queue_id))
    assert ".." not in path.parts


@pytest.mark.parametrize("name", ["../x", "../../etc/passwd", "a/b"])
def test_no_table_leads_out_of_the_store(name: str) -> None:
    with pytest.raises(IllegalName, match="use a plain name"):
        layout.config_path(ROOT, name)


def test_files_of_replication_have_rocketmqs_names() -> None:
    root = Path("/store")
    assert [
        path(root).name
        for path in (layout.epoch_file_path, layout.broker_identity_path, layout.broker_application_path)
    ] == ["epochFileCheckpoint", "brokerIdentity", "brokerIdentity-temp"]


def test_what_is_cut_off_a_log_has_a_directory_by_offset_and_time() -> None:
    name = layout.truncated_dir(Path("/store/setaside"), 714, 1_700_000_000_123).name
    assert name == f"truncated-00000000000000000714-{layout.index_name(1_700_000_000_123)}"
