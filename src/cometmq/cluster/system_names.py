"""Names of the topics and groups that brokers have without anyone creating them.

Those of delayed, timed, popped and half messages are where these are: ``delay_level``, ``timer``, ``pop``,
``transaction``.

Source: RocketMQ ``common/topic/TopicValidator.java``, ``common/MixAll.java``.
"""

from typing import Final

from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.format.transaction import TRANSACTION_GROUP

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The default pattern topic: topics that a send creates are copies of it."""
BENCHMARK_TOPIC: Final = "BenchmarkTest"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Holds half messages that are given up: their producers were asked too often."""
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"

SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
"""Prefix of most of the other topics of brokers; some have it in upper case."""
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

BOOT_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Groups that a broker has from the start."""

_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        BENCHMARK_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        OFFSET_MOVED_TOPIC,
        SCHEDULE_TOPIC,
        SELF_TEST_TOPIC,
        "CheckpointTopic",  # of a tool of RocketMQ's
    }
)


def is_user_topic(topic: str) -> bool:
    """Check whether users created a topic, not brokers (system topics) or groups (retries, dead letters)."""
    return (
        topic not in _TOPICS
        and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        and not topic.lower().startswith(SYSTEM_TOPIC_PREFIX)
    )


def is_user_group(group: str) -> bool:
    """Check whether users created a consumer group, not brokers."""
    return group not in BOOT_GROUPS and not group.startswith(SYSTEM_GROUP_PREFIX)
