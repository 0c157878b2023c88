import pytest
from google.protobuf.duration_pb2 import Duration

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.names import (
    checked_group,
    checked_invisible_ms,
    checked_topic,
    has_control_character,
    has_free_type,
    milliseconds,
)
from cometmq.proxy.outcomes import Failure


@pytest.mark.parametrize("name", ["", " ", "a b", "ä", "T" * 128, "TBW102", "rmq_sys_x", "SELF_TEST_TOPIC"])
def test_a_topic_that_clients_may_not_use_is_refused(name: str) -> None:
    with pytest.raises(Failure) as caught:
        checked_topic(pb.Resource(name=name))
    assert caught.value.code == pb.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", ["", "a b", "G" * 121, "CID_RMQ_SYS_TRANS"])
def test_a_group_that_clients_may_not_use_is_refused(name: str) -> None:
    with pytest.raises(Failure) as caught:
        checked_group(pb.Resource(name=name))
    assert caught.value.code == pb.ILLEGAL_CONSUMER_GROUP


def test_names_at_the_limits_are_used_without_their_namespace() -> None:
    assert checked_topic(pb.Resource(name="T" * 127, resource_namespace="n")) == "T" * 127
    assert checked_group(pb.Resource(name="%|aZ0_-")) == "%|aZ0_-"


@pytest.mark.parametrize(("seconds", "is_legal"), [(9, False), (10, True), (43_200, True), (43_201, False)])
def test_an_invisible_time_has_limits(seconds: int, is_legal: bool) -> None:
    if is_legal:
        assert checked_invisible_ms(Duration(seconds=seconds), 10_000) == seconds * 1000
    else:
        with pytest.raises(Failure) as caught:
            checked_invisible_ms(Duration(seconds=seconds), 10_000)
        assert caught.value.code == pb.ILLEGAL_INVISIBLE_TIME


def test_durations_are_cut_to_milliseconds() -> None:
    assert milliseconds(Duration(seconds=1, nanos=2_999_999)) == 1002


def test_control_characters_are_found() -> None:
    assert has_control_character("a\x01") and has_control_character("\x7f") and has_control_character("\x9f")
    assert not has_control_character("a ~é")


def test_retry_topics_accept_all_types() -> None:
    assert has_free_type("%RETRY%g") and has_free_type("%DLQ%g") and not has_free_type("T")
