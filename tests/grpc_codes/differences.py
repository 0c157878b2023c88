"""Where RocketMQ 5.5.0's proxy answers otherwise, and why: a test against it expects these and no others."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tests.grpc_codes.case import Case

OFFSET_RPCS: Final = frozenset({"PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"})


class Difference(NamedTuple):
    """Calls that RocketMQ's proxy answers otherwise.

    Attributes:
        outcome: what it answers; see ``Case.outcome``.
        is_about: returns whether a call is one of them.
    """

    outcome: str
    is_about: Callable[[Case], bool]
    reason: str


def _difference(reason: str, outcome: str, *texts: str) -> Difference:
    """Return a difference that is about some calls, by their texts."""
    return Difference(outcome, lambda case: str(case) in texts, reason)


DIFFERENCES: Final = (
    Difference(
        "gRPC UNIMPLEMENTED", lambda case: case.rpc in OFFSET_RPCS, "RocketMQ's proxy does not serve it"
    ),
    _difference(
        "CometMQ serves no lite topics",
        "ILLEGAL_CONSUMER_GROUP",
        "SyncLiteSubscription: of a topic of normal messages",
    ),
    _difference(
        "RocketMQ takes an unknown topic for one of another type; its clients ask for the route first",
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
        "SendMessage: an unknown topic",
        "RecallMessage: an unknown topic",
    ),
    _difference(
        "RocketMQ's proxy keeps transactions in its memory; ours has all in the id, which this is not",
        "INTERNAL_SERVER_ERROR",
        "EndTransaction: an unknown transaction id",
    ),
    _difference(
        "RocketMQ's proxy has no code for the broker's refusal",
        "INTERNAL_SERVER_ERROR",
        "ReceiveMessage: by SQL that cannot be parsed",
    ),
    _difference(
        "RocketMQ's proxy fails at what is no handle, and Java clients go on trying",
        "INTERNAL_SERVER_ERROR",
        "AckMessage: no handle",
        "ChangeInvisibleDuration: no handle",
        "ForwardMessageToDeadLetterQueue: no handle",
    ),
    _difference(
        "a broker that is away may come back: clients go on trying, which RocketMQ's code ends",
        "INVALID_RECEIPT_HANDLE",
        "AckMessage: a handle of an unknown broker",
        "ChangeInvisibleDuration: a handle of an unknown broker",
        "ForwardMessageToDeadLetterQueue: a handle of an unknown broker",
    ),
    _difference(
        "RocketMQ's proxy fails at clients of a type that it does not serve",
        "gRPC INTERNAL",
        "Telemetry: a pull consumer's",
        "Telemetry: a lite simple consumer's",
    ),
    _difference(
        "RocketMQ does not check the topics of a consumer's settings",
        "OK",
        "Telemetry: a consumer's of an illegal topic",
    ),
    _difference(
        "RocketMQ looks at the type in the client's settings, not at that in the heartbeat",
        "OK",
        "Heartbeat: of a pull consumer",
    ),
)


def number_of(case: Case) -> int | None:
    """Return the place, from 1, of the difference that is about a call; None if there is none."""
    return next((number for number, one in enumerate(DIFFERENCES, 1) if one.is_about(case)), None)


def rocketmqs(case: Case) -> str:
    """Return RocketMQ's outcome of a call, by ours and the differences."""
    number = number_of(case)
    return case.outcome if number is None else DIFFERENCES[number - 1].outcome


def useless(cases: Sequence[Case]) -> Iterator[str]:
    """Iterate over the differences that are none, or about no call."""
    for one in DIFFERENCES:
        about = [case for case in cases if one.is_about(case)]
        yield from (str(case) for case in about if case.outcome == one.outcome)
        if not about:
            yield one.reason
