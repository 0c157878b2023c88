"""Pull ranges of queues with several concurrent requests, and return the responses in order.

A broker returns at most 32 messages for a request, whatever the request says, and 8 if they are not in
memory, unless its settings allow more (``maxTransferCountOnMessageInMemory`` and the like). So the first
request asks for very many, and its response tells how large the slices are into which ranges are cut. Slices
are requested without waiting for the ones before; after a short response the rest of its slice is requested,
and the next slices are as large as that response. After complete responses, ``COMPLETE_MIN`` behind a short
one, they are twice as large.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from cometmq.client.requests.queue_requests import (
    PULL_COUNT,
    PulledRecords,
    PullStatus,
    QueuePull,
    QueueRequests,
)
from cometmq.errors import CometMQError, NetworkError
from cometmq.spark.live.links import Link
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.retries import with_retries
from cometmq.wire.frame import Command

UNDER_WAY: Final = 4_096
"""Messages that one task has requested at a time, 128 slices of 32: broker and task then find dozens
of frames in each read of a socket, and sleep and wake less often (``benches.bench_spark_kafka``, 128 B) …"""
UNDER_WAY_MIN: Final = 4
"""… but at least so many slices, however large …"""
SLICES_MAX: Final = 128
"""… and at most so many, however small: ranges of one message each are of as many queues."""
SLICE_MAX: Final = 8_192
COMPLETE_MIN: Final = 64
"""Complete responses after a short one until a larger slice is tried again."""
FILTERED_SLICE: Final = 512
"""Offsets of a slice where brokers filter: a response holds 32 messages that match."""
REQUEST_TIMEOUT_MS: Final = 10_000
BYTES_MAX: Final = 1024 * 1024
"""Limit of one response; the brokers' own limit is a quarter of a MiB unless it was raised."""


class PulledPiece(NamedTuple):
    """A pulled part of a range.

    Attributes:
        bodies: records back to back; where brokers filter, messages behind the range may be among them.
        gone: ranges that the broker no longer has; they may end behind ``range``, where the queue begins now.
    """

    range: QueueRange
    bodies: list[bytes]
    gone: list[QueueRange]


Response = asyncio.Future[Command] | asyncio.Task[PulledRecords]
"""Of a broker to a request sent without a task, or what a task with retries brings."""


class _Slice(msgspec.Struct):
    """A requested slice of a range.

    Attributes:
        left: what is requested of it now.
        response: a broker's, or what retries bring; None once the slice is complete.
        share: its size, as a share of a full one.
    """

    piece: PulledPiece
    left: QueueRange
    response: "Response | None"
    share: float


class RangePulls:
    """Pulls ranges of queues over a link.

    A request that succeeds at once needs no task: its response is a future of the connection. Of those that
    have arrived all are processed together, in order, when the first one is waited for.
    """

    def __init__(self, options: LiveOptions, link: Link) -> None:
        self._options = options
        self._expression = options.expression
        self._is_filtered = options.tags is not None or options.sql is not None
        self._slice = FILTERED_SLICE if self._is_filtered else SLICE_MAX
        self._is_slice_known = self._is_filtered
        self._complete_until_growth = 1
        self._routes = link.routes
        self._requests = QueueRequests(
            link.connections, self._routes, options.reader_group, REQUEST_TIMEOUT_MS
        )
        self._under_way: deque[_Slice] = deque()
        self._shares = 0.0  # of all that are under way
        self._to_ask: deque[QueueRange] = deque()

    def add(self, ranges: Iterable[QueueRange]) -> None:
        """Add ranges to pull, in this order."""
        self._to_ask += (one for one in ranges if one.size)

    async def next(self, bytes_max: int) -> list[PulledPiece]:
        """Return the next pieces, in order, of about ``bytes_max`` bytes; none at the end.

        Raises:
            NetworkError: a broker did not respond for ``retrySeconds``.
            RemoteError: a broker refuses the request.
        """
        pieces: list[PulledPiece] = []
        size = 0
        while size < bytes_max and (self._to_ask or self._under_way):
            self._request_more()
            first = self._under_way[0]
            if first.response is None:
                self._under_way.popleft()
                self._shares -= first.share
                pieces.append(first.piece)
                size += sum(map(len, first.piece.bodies))
            else:
                await _wait_for(first.response)
                self._process_responses()
        return pieces

    async def close(self) -> None:
        """Cancel the requests under way."""
        left = [one.response for one in self._under_way if one.response is not None]
        for response in left:
            response.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _request_more(self) -> None:
        at_once = self._slice if self._is_slice_known and not self._is_filtered else PULL_COUNT
        whole_max = max(UNDER_WAY // at_once, UNDER_WAY_MIN)
        while self._to_ask and self._has_room(whole_max):
            one = self._cut()
            share = min(one.size / at_once, 1.0)
            self._shares += share
            self._under_way.append(_Slice(PulledPiece(one, [], []), one, self._request(one), share))

    def _has_room(self, whole_max: int) -> bool:
        if not self._is_slice_known and self._under_way:
            last = self._under_way[-1]
            if last.response is not None and last.left.size > PULL_COUNT:
                return False  # its response tells the size of the slices
        return len(self._under_way) < SLICES_MAX and self._shares < whole_max

    def _cut(self) -> QueueRange:
        """Return the next slice to request."""
        queue, start, end = whole = self._to_ask.popleft()
        if end - start <= self._slice:
            return whole
        cut = start + self._slice
        self._to_ask.appendleft(QueueRange(queue, cut, end))
        return QueueRange(queue, start, cut)

    def _request(self, left: QueueRange) -> Response:
        """Send a request, with retries if it cannot be sent at once."""
        return self._requests.start_pull(self._queue_pull(left)) or self._request_with_retries(left)

    def _request_with_retries(self, left: QueueRange) -> "asyncio.Task[PulledRecords]":
        return asyncio.create_task(
            with_retries(
                left,
                self._options.retry_s,
                partial(self._ask, left),
                before_retry=partial(self._routes.expire, left.queue.topic),
            )
        )

    def _process_responses(self) -> None:
        """Process the responses that have arrived."""
        for one in self._under_way:
            if one.response is not None and one.response.done():
                self._process_response(one, one.response)

    def _process_response(self, one: _Slice, response: Response) -> None:
        """Add what a response brings to its slice, and request the rest."""
        if isinstance(response, asyncio.Task):
            if response.exception() is not None:
                return  # raised once the slices before it are complete
            pulled = response.result()
        elif (pulled := self._pulled(one.left, response)) is None:
            one.response = self._request_with_retries(one.left)
            return
        queue, start, end = left = one.left
        offset = pulled.next_offset if pulled.next_offset > start else end
        if pulled.body:
            one.piece.bodies.append(pulled.body)
            if not self._is_filtered:
                self._adapt_slice(end - start, offset - start)
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            one.piece.gone.append(left._replace(end=offset))  # maybe more than this task was to read
        elif pulled.status is PullStatus.NO_NEW_MESSAGE:
            one.piece.gone.append(left)
        if offset >= end:
            one.response = None
        elif one is self._under_way[-1] and not self._is_filtered:  # the rest is cut anew
            one.piece = one.piece._replace(range=QueueRange(queue, one.piece.range.start, offset))
            one.response = None
            self._to_ask.appendleft(QueueRange(queue, offset, end))
        else:
            one.left = QueueRange(queue, offset, end)
            one.response = self._request(one.left)

    def _pulled(self, left: QueueRange, response: "asyncio.Future[Command]") -> PulledRecords | None:
        """Return what a response brings; None if it has to be requested with retries."""
        try:
            pulled = self._requests.pulled(left.queue, left.start, response.result())
        except CometMQError:
            self._routes.expire(left.queue.topic)  # the broker may have come back elsewhere
            return None
        return None if pulled is None or _is_wrongly_empty(pulled, left) else pulled

    def _adapt_slice(self, requested: int, received: int) -> None:
        """Set the size of the next slices by the offsets that one response covered."""
        is_short = received < requested
        if not self._is_slice_known and (is_short or requested > PULL_COUNT):
            self._is_slice_known = True
            self._slice = max(requested, PULL_COUNT)
        if is_short:
            if (smaller := max(received, PULL_COUNT)) < self._slice:
                self._slice = smaller
                self._complete_until_growth = COMPLETE_MIN
        elif requested >= self._slice:
            self._complete_until_growth -= 1
            if self._complete_until_growth <= 0:
                self._slice = min(2 * self._slice, SLICE_MAX)

    def _queue_pull(self, left: QueueRange) -> QueuePull:
        size = left.size
        return QueuePull(
            left.queue,
            left.start,
            self._expression,
            self._options.sql,
            max_count=min(size, PULL_COUNT) if self._is_filtered else size,
            max_bytes=BYTES_MAX,
        )

    async def _ask(self, left: QueueRange) -> PulledRecords:
        """Pull from the start of ``left``. Raises NetworkError for an empty response that is no end."""
        pulled = await self._requests.pull_records(self._queue_pull(left))
        if _is_wrongly_empty(pulled, left):
            raise NetworkError(
                f"the response is empty, though the queue has messages up to {pulled.max_offset - 1}"
            )
        return pulled


async def _wait_for(response: Response) -> None:
    """Wait for a response. Raises only what retries have not mended."""
    try:
        await response
    except CometMQError:
        if isinstance(response, asyncio.Task):
            raise


def _is_wrongly_empty(pulled: PulledRecords, left: QueueRange) -> bool:
    """Check whether a response is empty though the queue has all of ``left``."""
    return pulled.next_offset <= left.start and pulled.max_offset >= left.end
