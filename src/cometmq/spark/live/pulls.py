"""Pull ranges of queues with several concurrent requests, and return the responses in order.

A broker returns at most 32 messages for a request, whatever the request says, and 8 if they are not in
memory, unless its settings allow more (``maxTransferCountOnMessageInMemory`` and the like). So a range is cut
into slices of 32 offsets, which are requested without waiting for the ones before. As long as responses are
complete, the next slices are larger; after a short one the rest of its slice is requested, and the next
slices are as large as that response.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from cometmq.client.consumer.queue_requests import (
    PULL_COUNT,
    PulledRecords,
    PullStatus,
    QueuePull,
    QueueRequests,
)
from cometmq.errors import NetworkError
from cometmq.spark.live.links import Link
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.retries import with_retries

UNDER_WAY: Final = 2_048
"""Messages that one task has requested at a time, 64 slices of 32: broker and task then find dozens of frames
in each read of a socket, and sleep and wake less often. Twice as many gain nothing …"""
UNDER_WAY_MIN: Final = 4
"""… but at least so many slices, however large …"""
SLICES_MAX: Final = 64
"""… and at most so many, however small: ranges of one message each are of as many queues."""
SLICE_MAX: Final = 8_192
FILTERED_SLICE: Final = 512
"""Offsets of a slice where brokers filter: a response holds 32 messages that match."""
REQUEST_TIMEOUT_MS: Final = 10_000
BYTES_MAX: Final = 1024 * 1024
"""Limit of one response; the brokers' own limit is a quarter of a MiB unless it was raised."""


class PulledPiece(NamedTuple):
    """A pulled part of a range.

    Attributes:
        bodies: records back to back; where brokers filter, messages behind the range may be among them.
        gone: ranges that the broker no longer has.
    """

    range: QueueRange
    bodies: list[bytes]
    gone: list[QueueRange]


class RangePulls:
    """Pulls ranges of queues over a link."""

    def __init__(self, options: LiveOptions, link: Link) -> None:
        self._options = options
        self._is_filtered = options.tags is not None or options.sql is not None
        self._slice = FILTERED_SLICE if self._is_filtered else PULL_COUNT
        self._routes = link.routes
        self._requests = QueueRequests(
            link.connections, self._routes, options.reader_group, REQUEST_TIMEOUT_MS
        )
        self._under_way: deque[asyncio.Task[PulledPiece]] = deque()
        self._shares: deque[float] = deque()  # size of each requested slice, as a share of a full one
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
            at_once = PULL_COUNT if self._is_filtered else self._slice
            while self._to_ask and self._has_room(at_once):
                one = self._cut()
                self._under_way.append(asyncio.create_task(self._pull(one)))
                self._shares.append(min(one.size / at_once, 1.0))
            pieces.append(await self._under_way[0])
            self._under_way.popleft()
            self._shares.popleft()
            size += sum(map(len, pieces[-1].bodies))
        return pieces

    async def close(self) -> None:
        """Cancel the requests under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _has_room(self, at_once: int) -> bool:
        whole_max = max(UNDER_WAY // at_once, UNDER_WAY_MIN)
        return len(self._under_way) < SLICES_MAX and sum(self._shares) < whole_max

    def _cut(self) -> QueueRange:
        """Return the next slice to request."""
        whole = self._to_ask.popleft()
        first = whole._replace(end=min(whole.start + self._slice, whole.end))
        if first.end < whole.end:
            self._to_ask.appendleft(whole._replace(start=first.end))
        return first

    def _adapt_slice(self, requested: int, received: int) -> None:
        """Set the size of the next slices by the offsets that one response covered."""
        if received < requested:
            self._slice = max(received, PULL_COUNT)
        elif requested >= self._slice:
            self._slice = min(2 * self._slice, SLICE_MAX)

    async def _pull(self, one: QueueRange) -> PulledPiece:
        piece = PulledPiece(one, [], [])
        offset = one.start
        while offset < one.end:
            left = one if offset == one.start else one._replace(start=offset)
            pulled = await with_retries(
                left,
                self._options.retry_s,
                partial(self._ask, left),
                before_retry=partial(self._routes.expire, one.queue.topic),
            )
            offset = pulled.next_offset if pulled.next_offset > offset else one.end
            if not self._is_filtered:
                self._adapt_slice(left.size, offset - left.start)
            if pulled.body:
                piece.bodies.append(pulled.body)
            if pulled.status not in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
                piece.gone.append(left._replace(end=min(offset, one.end)))
        return piece

    async def _ask(self, left: QueueRange) -> PulledRecords:
        """Pull from the start of ``left``. Raises NetworkError for an empty response that is no end."""
        pulled = await self._requests.pull_records(
            QueuePull(
                left.queue,
                left.start,
                self._options.expression,
                self._options.sql,
                max_count=min(left.size, PULL_COUNT) if self._is_filtered else left.size,
                max_bytes=BYTES_MAX,
            )
        )
        if pulled.next_offset <= left.start and pulled.max_offset >= left.end:
            raise NetworkError(
                f"the response is empty, though the queue has messages up to {pulled.max_offset - 1}"
            )
        return pulled
