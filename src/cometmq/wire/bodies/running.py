"""Bodies in which a member of a consumer group reports its state.

RocketMQ: ``ConsumerRunningInfo.java``, ``ProcessQueueInfo.java``, ``ConsumeStatus.java``,
``ConsumeMessageDirectlyResult.java``.
"""

import json
import re
from enum import StrEnum
from typing import Final

from msgspec import field

from cometmq.errors import FormatError
from cometmq.message import Buffer, MessageQueue
from cometmq.wire.bodies.body import Body, from_plain, wire_name
from cometmq.wire.bodies.heartbeat import SubscriptionData
from cometmq.wire.headers.fields import Int, Long


class RunningQueue(Body):
    """A queue that a member consumes.

    Attributes:
        waiting_count: messages received and not yet handled; the fields beside it are the queue offsets of
            the first and the last of them, and the size of their bodies.
        locked: whether the member holds the lock of an ordered queue.
        dropped: whether the member is about to release the queue.
        pull_time: time of the last pull, ms since the epoch.
        consume_time: time when a handler last finished, ms since the epoch.
    """

    commit_offset: Long = 0
    waiting_min_offset: Long = field(default=0, name="cachedMsgMinOffset")
    waiting_max_offset: Long = field(default=0, name="cachedMsgMaxOffset")
    waiting_count: Int = field(default=0, name="cachedMsgCount")
    waiting_mib: Int = field(default=0, name="cachedMsgSizeInMiB")
    locked: bool = False
    dropped: bool = field(default=False, name="droped")
    pull_time: Long = field(default=0, name="lastPullTimestamp")
    consume_time: Long = field(default=0, name="lastConsumeTimestamp")


class ConsumeStatus(Body):
    """A member's throughput for a topic: times in ms, messages per second, failures of the last hour."""

    pull_ms: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")
    consume_ms: float = field(default=0.0, name="consumeRT")
    handled_tps: float = field(default=0.0, name="consumeOKTPS")
    failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    failed_count: Long = field(default=0, name="consumeFailedMsgs")


class RunningInfo(Body):
    """GET_CONSUMER_RUNNING_INFO: a member's settings, subscriptions and queues.

    Attributes:
        stacks: of its threads, if they were asked for.
    """

    properties: dict[str, str] = field(default_factory=dict)
    subscriptions: list[SubscriptionData] = field(default_factory=list, name="subscriptionSet")
    queues: dict[MessageQueue, RunningQueue] = field(default_factory=dict, name="mqTable")
    topics: dict[str, ConsumeStatus] = field(default_factory=dict, name="statusTable")
    stacks: str | None = field(default=None, name="jstack")


_SUBSCRIPTIONS: Final = wire_name(RunningInfo, "subscriptions")
_SUBSCRIPTIONS_BEGIN: Final = re.compile(rf'"{_SUBSCRIPTIONS}"\s*:\s*'.encode())
_JSON: Final = json.JSONDecoder()


def subscriptions_in(data: Buffer, size_max: int) -> list[SubscriptionData]:
    """Return the subscriptions in a RunningInfo without decoding the rest of it.

    The rest may be large and is no standard JSON, so that it takes long; the subscriptions are standard JSON.

    Args:
        size_max: most bytes of the subscriptions; more are not read.

    Raises:
        FormatError: there are none, or they are not standard JSON, or too long.
    """
    if (begin := _SUBSCRIPTIONS_BEGIN.search(data)) is None:
        raise FormatError(f"body has no {_SUBSCRIPTIONS}")
    try:
        plain, _ = _JSON.raw_decode(str(data[begin.end() : begin.end() + size_max], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{_SUBSCRIPTIONS} of at most {size_max} bytes: {error}") from None
    return from_plain(RunningInfo, {_SUBSCRIPTIONS: plain}).subscriptions


class ConsumeResult(StrEnum):
    """The result of handling a message."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class ConsumedDirectly(Body):
    """CONSUME_MESSAGE_DIRECTLY: the result of the message that a member was asked to handle."""

    result: ConsumeResult | None = field(default=None, name="consumeResult")
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_ms: Long = field(default=0, name="spentTimeMills")
