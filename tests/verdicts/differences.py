"""Where RocketMQ 5.5.0 has other verdicts, and why: a test against its broker expects these and no others."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tests.verdicts.asking import Verdict, Verdicts
from tests.verdicts.senders import LIMITED, Sender


class Difference(NamedTuple):
    """Requests that RocketMQ lets through, by these senders, and CometMQ refuses.

    Attributes:
        cases: the requests, by their texts.
        reason: what RocketMQ 5.5.0 does not check.
    """

    cases: frozenset[str]
    senders: Sequence[Sender]
    reason: str


def _difference(reason: str, senders: Sequence[Sender], cases: str) -> Difference:
    return Difference(frozenset(case.strip() for case in cases.strip().splitlines()), senders, reason)


DIFFERENCES: Final = (
    _difference(
        "RocketMQ knows no permission for this code, so that any user may send it",
        LIMITED,
        """
        25 UPDATE_BROKER_CONFIG
        26 GET_BROKER_CONFIG
        27 TRIGGER_DELETE_FILES
        28 GET_BROKER_RUNTIME_INFO
        43 GET_ALL_CONSUMER_OFFSET
        45 GET_ALL_DELAY_OFFSET
        46 CHECK_CLIENT_CONFIG
        60 GET_TIMER_CHECK_POINT
        61 GET_TIMER_METRICS
        200 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        225 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        305 GET_SYSTEM_TOPIC_LIST_FROM_BROKER
        306 CLEAN_EXPIRED_CONSUMEQUEUE
        316 CLEAN_UNUSED_TOPIC
        324 SEND_REPLY_MESSAGE
        325 SEND_REPLY_MESSAGE_V2
        329 DELETE_EXPIRED_COMMITLOG
        361 LITE_PULL_MESSAGE
        400 QUERY_ASSIGNMENT
        401 SET_MESSAGE_REQUEST_MODE
        402 GET_ALL_MESSAGE_REQUEST_MODE
        907 GET_BROKER_HA_STATUS
        1007 GET_BROKER_EPOCH_CACHE
        200151 BATCH_ACK_MESSAGE
        """,
    ),
    _difference(
        "RocketMQ has a permission for this code, and no field of its header names what it is for",
        LIMITED,
        """
        18 UPDATE_AND_CREATE_TOPIC_LIST
        21 GET_ALL_TOPIC_CONFIG
        201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        """,
    ),
    _difference(
        "RocketMQ checks the topic that the request names, if it names one",
        LIMITED,
        """
        33 VIEW_MESSAGE_BY_ID (without a topic)
        37 END_TRANSACTION (without a topic)
        323 RESUME_CHECK_HALF_MESSAGE (without a topic)
        """,
    ),
    _difference(
        "RocketMQ does not compare the named topic with that of the message",
        (Sender.EXACT, Sender.PREFIX),
        "33 VIEW_MESSAGE_BY_ID (another topic's message)",
    ),
    _difference(
        "RocketMQ does not check the topic of the message that is sent back",
        (Sender.PARTIAL,),
        "36 CONSUMER_SEND_MSG_BACK",
    ),
    _difference(
        "RocketMQ does not check the group whose offsets are copied",
        (Sender.EXACT, Sender.PREFIX),
        "314 CLONE_GROUP_OFFSET (another group's offsets)",
    ),
)


def number_of(case: str, sender: Sender) -> int | None:
    """Return the place, from 1, of the difference that is about a verdict; None if there is none."""
    for number, difference in enumerate(DIFFERENCES, 1):
        if case in difference.cases and sender in difference.senders:
            return number
    return None


def rocketmqs(ours: Verdicts) -> Verdicts:
    """Return RocketMQ's verdicts, by ours and the differences."""
    return {
        case: {
            sender: verdict if number_of(case, sender) is None else Verdict.PASSED
            for sender, verdict in row.items()
        }
        for case, row in ours.items()
    }


def useless(ours: Verdicts) -> Iterator[str]:
    """Iterate over the differences that are none, since CometMQ lets the request through, too."""
    for difference in DIFFERENCES:
        for case in sorted(difference.cases):
            for sender in difference.senders:
                if ours[case][sender] is not Verdict.FORBIDDEN:
                    yield f"{case}, {sender}: {ours[case][sender].name}"
