"""Checks of the names, times and counts in requests.

Source: RocketMQ ``proxy/grpc/v2/common/GrpcValidator.java``.
"""

import re
from typing import Final

from google.protobuf.duration_pb2 import Duration

from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure

TOPIC_LENGTH_MAX: Final = 127
GROUP_LENGTH_MAX: Final = 120
INVISIBLE_MS_MIN: Final = 10_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
_SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
_SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
_CHARACTERS: Final = "characters a-z A-Z 0-9 _ - % |"
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


def checked_topic(resource: pb.Resource) -> str:
    """Return the name of a topic. Raises Failure if clients may not use it."""
    topic = resource.name
    if not _is_name(topic, TOPIC_LENGTH_MAX):
        raise Failure(
            pb.ILLEGAL_TOPIC,
            f"topic {topic[:TOPIC_LENGTH_MAX]!r}: give 1 to {TOPIC_LENGTH_MAX} {_CHARACTERS}",
        )
    if topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_TOPIC_PREFIX):
        raise Failure(pb.ILLEGAL_TOPIC, f"topic {topic!r} is a system topic: use one of your own")
    return topic


def checked_group(resource: pb.Resource) -> str:
    """Return the name of a consumer group. Raises Failure if clients may not use it."""
    group = resource.name
    if not _is_name(group, GROUP_LENGTH_MAX):
        raise Failure(
            pb.ILLEGAL_CONSUMER_GROUP,
            f"group {group[:GROUP_LENGTH_MAX]!r}: give 1 to {GROUP_LENGTH_MAX} {_CHARACTERS}",
        )
    if group.startswith(_SYSTEM_GROUP_PREFIX):
        raise Failure(pb.ILLEGAL_CONSUMER_GROUP, f"group {group!r} is a system group: use one of your own")
    return group


def check_count(count: int, most: int, what: str) -> None:
    """Check how many of something a request has. Raises Failure if they are too many."""
    if count > most:
        raise Failure(
            pb.BAD_REQUEST, f"{count} {what} in one request: at most {most} are possible (requestItemsMax)"
        )


def has_free_type(topic: str) -> bool:
    """Return whether messages of any type may be sent to a topic, whatever its attribute says."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def has_control_character(text: str) -> bool:
    """Return whether a text holds an ISO control character."""
    return _CONTROL.search(text) is not None


def milliseconds(duration: Duration) -> int:
    """Return a duration in ms, rounded down."""
    return duration.seconds * 1000 + duration.nanos // 1_000_000


def checked_invisible_ms(duration: Duration, least_ms: int) -> int:
    """Return an invisible time in ms. Raises Failure if it is not between ``least_ms`` and 12 hours."""
    value_ms = milliseconds(duration)
    if not least_ms <= value_ms <= INVISIBLE_MS_MAX:
        raise Failure(
            pb.ILLEGAL_INVISIBLE_TIME,
            f"an invisible time of {value_ms} ms: give {least_ms} to {INVISIBLE_MS_MAX}",
        )
    return value_ms


def _is_name(text: str, length_max: int) -> bool:
    return len(text) <= length_max and _NAME.fullmatch(text) is not None
