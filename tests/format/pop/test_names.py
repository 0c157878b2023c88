import pytest

from cometmq.format.pop.names import RetryFlag, flag_of, normal_topic, retry_topic, revive_topic


@pytest.mark.parametrize(
    ("flag", "topic"), [(RetryFlag.NONE, "T"), (RetryFlag.V1, "%RETRY%g_T"), (RetryFlag.V2, "%RETRY%g+T")]
)
def test_a_topic_and_its_retry_topics_tell_their_flags_and_each_other(flag: RetryFlag, topic: str) -> None:
    assert retry_topic("T", "g", flag) == topic
    assert flag_of(topic) is flag
    assert normal_topic(topic, "g") == "T"


def test_a_retry_topic_of_another_group_is_no_other_topic() -> None:
    assert normal_topic("%RETRY%other_T", "g") == "%RETRY%other_T"


def test_the_revive_topic_names_the_cluster() -> None:
    assert revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"
