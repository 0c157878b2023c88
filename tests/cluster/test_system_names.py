"""Which topics and groups users created, and which brokers have without anyone creating them."""

import pytest

from cometmq.cluster.system_names import BOOT_GROUPS, is_user_group, is_user_topic


@pytest.mark.parametrize("topic", ["orders", "TBW1020", "my_rmq_sys_", "orders_REPLY_TOPIC"])
def test_a_topic_with_another_name_is_a_users(topic: str) -> None:
    assert is_user_topic(topic)


@pytest.mark.parametrize(
    "topic",
    [
        *("TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
        *("TRANS_CHECK_MAX_TIME_TOPIC", "CheckpointTopic", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer"),
        *("%RETRY%g", "%DLQ%g"),
    ],
)
def test_topics_that_nobody_made_are_no_users(topic: str) -> None:
    assert not is_user_topic(topic)


def test_groups_that_nobody_made_are_no_users() -> None:
    assert not any(map(is_user_group, (*BOOT_GROUPS, "CID_RMQ_SYS_REVIVE_GROUP")))
    assert is_user_group("CID_RMQ")
