"""The outcomes of rpcs: a code and a text in each answer.

Source: RocketMQ ``proxy/grpc/v2/common/ResponseBuilder.java``.
"""

from bisect import bisect_left
from collections import Counter
from typing import Final

from cometmq.errors import (
    CometMQError,
    IllegalName,
    NoRoute,
    ReceiptExpired,
    RemoteError,
    RequestTimeout,
)
from cometmq.proxy import messaging_pb2 as pb
from cometmq.wire.codes import ResponseCode

OK: Final = pb.Status(code=pb.OK, message="OK")

_OF_BROKERS: Final[dict[int, pb.Code]] = {
    ResponseCode.SYSTEM_BUSY: pb.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: pb.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: pb.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.TOPIC_NOT_EXIST: pb.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: pb.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.POLLING_FULL: pb.TOO_MANY_REQUESTS,
    ResponseCode.NO_MESSAGE: pb.INVALID_RECEIPT_HANDLE,
    ResponseCode.FLUSH_DISK_TIMEOUT: pb.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: pb.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: pb.HA_NOT_AVAILABLE,
}
"""The codes for brokers' codes; INTERNAL_SERVER_ERROR stands for all others."""
LATENCY_MS: Final = (1.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)
"""The bounds by which the times of calls are counted."""


class Failure(CometMQError):
    """An rpc, or a part of it, that fails with a code.

    Attributes:
        code: the code in the answer.
    """

    def __init__(self, code: pb.Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def unread() -> Failure:
    """Return the failure of a call whose client, or others, leave too many answers unread."""
    return Failure(
        pb.TOO_MANY_REQUESTS, "too many bytes of answers are unread: read them, or ask for fewer at a time"
    )


class CallCounts:
    """The calls that have been answered.

    Attributes:
        by_outcome: their number, by the rpc and the code of the answer.
        took: the number of those with one answer, by how long they took: see ``LATENCY_MS``, and above all.
        took_ms: the sum of these times.
    """

    def __init__(self) -> None:
        self.by_outcome: Counter[tuple[str, pb.Code]] = Counter()
        self.took = [0] * (len(LATENCY_MS) + 1)
        self.took_ms = 0.0

    def add(self, rpc: str, code: pb.Code, took_s: float | None = None) -> None:
        """Count a call; without a time it has several answers."""
        self.by_outcome[rpc, code] += 1
        if took_s is not None:
            self.took[bisect_left(LATENCY_MS, took_s * 1000)] += 1
            self.took_ms += took_s * 1000


def code_of_broker(code: int) -> pb.Code:
    """Return the code for a broker's response code."""
    if code == ResponseCode.SUCCESS:
        return pb.OK
    return _OF_BROKERS.get(code, pb.INTERNAL_SERVER_ERROR)


def status_of(error: CometMQError) -> pb.Status:
    """Return the outcome of an rpc that failed."""
    return pb.Status(code=_code_of(error), message=str(error))


def common_status(statuses: list[pb.Status]) -> pb.Status:
    """Return the outcome of all parts of an rpc: the one that they share, or MULTIPLE_RESULTS."""
    codes = {status.code for status in statuses}
    if len(codes) == 1:
        return statuses[0]
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="the parts have different outcomes")


def _code_of(error: CometMQError) -> pb.Code:
    if isinstance(error, Failure):
        return error.code
    if isinstance(error, RemoteError):
        return code_of_broker(error.code)
    if isinstance(error, NoRoute):
        return pb.TOPIC_NOT_FOUND
    if isinstance(error, IllegalName):
        return pb.ILLEGAL_TOPIC
    if isinstance(error, ReceiptExpired):
        return pb.INVALID_RECEIPT_HANDLE
    if isinstance(error, RequestTimeout):
        return pb.PROXY_TIMEOUT
    return pb.INTERNAL_SERVER_ERROR
