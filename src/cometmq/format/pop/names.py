"""The names that pop consumption uses: its retry topics and the topic of its check points.

======================================== ===========================================================
``%RETRY%<group>_<topic>``               retry topic, version 1: the default
``%RETRY%<group>+<topic>``               retry topic, version 2: no name before it holds a ``+``
``rmq_sys_REVIVE_LOG_<cluster>``         check points and acknowledgements that are due
======================================== ===========================================================

A message that is popped from a retry topic and not acknowledged returns to the same retry topic.

Source: RocketMQ ``common/KeyBuilder.java``, ``common/PopAckConstants.java``.
"""

from enum import IntEnum
from typing import Final

from cometmq.format.layout import RETRY_PREFIX

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""The group whose committed offsets in the revive topic are the positions of the last check points done."""
POP_COUNT_MAX: Final = 32
"""Most messages of one pop of a queue, and so of one check point."""
ORDER_REVIVE_QUEUE_ID: Final = 999
"""The revive queue in handles of ordered pops, which have no check points."""
_SEPARATOR_V1: Final = "_"
_SEPARATOR_V2: Final = "+"


class RetryFlag(IntEnum):
    """Whether a queue is one of a retry topic, and of which version, as handles and answers write it."""

    NONE = 0
    V1 = 1
    V2 = 2


def revive_topic(cluster: str) -> str:
    """Return the topic of check points of a cluster's brokers."""
    return REVIVE_PREFIX + cluster


def retry_topic(topic: str, group: str, flag: RetryFlag = RetryFlag.V1) -> str:
    """Return the topic that ``flag`` stands for: a retry topic of ``topic``, or ``topic`` itself for NONE."""
    if flag is RetryFlag.NONE:
        return topic
    separator = _SEPARATOR_V2 if flag is RetryFlag.V2 else _SEPARATOR_V1
    return f"{RETRY_PREFIX}{group}{separator}{topic}"


def flag_of(topic: str) -> RetryFlag:
    """Return the flag of a topic's queues."""
    if not topic.startswith(RETRY_PREFIX):
        return RetryFlag.NONE
    return RetryFlag.V2 if _SEPARATOR_V2 in topic else RetryFlag.V1


def normal_topic(topic: str, group: str) -> str:
    """Return the topic that a group's retry topic belongs to; any other topic is returned as it is."""
    own = RETRY_PREFIX + group
    if topic.startswith((own + _SEPARATOR_V1, own + _SEPARATOR_V2)):
        return topic[len(own) + 1 :]
    return topic
