"""Pulling a range of a queue: several requests under way at once, answers in order.

A broker gives at most 32 messages for a request, whatever is asked for, and 8 if they are not in its memory,
unless its settings say more (``maxTransferCountOnMessageInMemory`` and the like). So the range is cut into
slices of 32 offsets, each of which is asked for without waiting for the one before. As long as they come
whole, the next ones are larger; one that comes short is asked for again from where it ended, and tells how
much comes.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from cometmq.client.consumer.queue_requests import PULL_COUNT, PulledRecords, PullStatus, QueueRequests
from cometmq.errors import NetworkError
from cometmq.spark.live.links import Link
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.patience import patiently
from cometmq.spark.live.ranges import QueueRange

UNDER_WAY: Final = 512
"""Messages that one task has asked for: more bring nothing, as its own core is busy then …"""
UNDER_WAY_MIN: Final = 4
"""… but for so many slices, however large they are …"""
SLICES_MAX: Final = 64
"""… and so many at most, however small: ranges of a message each come from as many queues."""
SLICE_MAX: Final = 8_192
FILTERED_SLICE: Final = 512
"""Offsets of a slice where brokers filter: a request gives 32 messages that pass."""
REQUEST_TIMEOUT_MS: Final = 10_000
BYTES_MAX: Final = 1024 * 1024
"""Most that is asked for at once; the brokers' own limit is a quarter of a MiB unless it was raised."""


class PulledPiece(NamedTuple):
    """Part of a range, pulled.

    Attributes:
        bodies: records back to back; where brokers filter, messages behind the range may be among them.
        gone: what the broker said that it has no more.
    """

    range: QueueRange
    bodies: list[bytes]
    gone: list[QueueRange]


class RangePulls:
    """Pulls ranges over a link."""

    def __init__(self, options: LiveOptions, link: Link) -> None:
        self._options = options
        self._is_filtered = options.tags is not None or options.sql is not None
        self._slice = FILTERED_SLICE if self._is_filtered else PULL_COUNT
        self._routes = link.routes
        self._requests = QueueRequests(
            link.connections, self._routes, options.reader_group, REQUEST_TIMEOUT_MS
        )
        self._under_way: deque[asyncio.Task[PulledPiece]] = deque()
        self._shares: deque[float] = deque()  # of each slice under way: how large it is, beside a whole one
        self._to_ask: deque[QueueRange] = deque()

    def begin(self, ranges: Iterable[QueueRange]) -> None:
        """Say what is to be pulled, in this order."""
        self._to_ask += (one for one in ranges if one.size)

    async def next(self, bytes_max: int) -> list[PulledPiece]:
        """Give the next pieces, in order, of about so many bytes; none at the end.

        Raises:
            NetworkError: a broker does not answer for ``retrySeconds``: names it.
            RemoteError: it refuses.
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
        """Give up what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _has_room(self, at_once: int) -> bool:
        whole_max = max(UNDER_WAY // at_once, UNDER_WAY_MIN)
        return len(self._under_way) < SLICES_MAX and sum(self._shares) < whole_max

    def _cut(self) -> QueueRange:
        """Take the next slice of what is to be asked for."""
        whole = self._to_ask.popleft()
        first = whole._replace(end=min(whole.start + self._slice, whole.end))
        if first.end < whole.end:
            self._to_ask.appendleft(whole._replace(start=first.end))
        return first

    def _learn(self, asked: int, came: int) -> None:
        """Make the next slices about as large as what comes at once."""
        if came < asked:
            self._slice = max(came, PULL_COUNT)
        elif asked >= self._slice:
            self._slice = min(2 * self._slice, SLICE_MAX)

    async def _pull(self, one: QueueRange) -> PulledPiece:
        piece = PulledPiece(one, [], [])
        offset = one.start
        while offset < one.end:
            left = one._replace(start=offset)
            pulled = await patiently(
                str(left),
                self._options.retry_s,
                partial(self._ask, left),
                before_retry=partial(self._routes.expire, one.queue.topic),
            )
            offset = pulled.next_offset if pulled.next_offset > offset else one.end
            if not self._is_filtered:
                self._learn(left.size, offset - left.start)
            if pulled.body:
                piece.bodies.append(pulled.body)
            if pulled.status not in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
                piece.gone.append(left._replace(end=min(offset, one.end)))
        return piece

    async def _ask(self, left: QueueRange) -> PulledRecords:
        """Pull from where ``left`` begins; the answer leads on, or says that the queue ends before."""
        pulled = await self._requests.pull_records(
            left.queue,
            left.start,
            tags=self._options.expression,
            sql=self._options.sql,
            max_count=min(left.size, PULL_COUNT) if self._is_filtered else left.size,
            max_bytes=BYTES_MAX,
        )
        if pulled.next_offset <= left.start and pulled.max_offset >= left.end:
            raise NetworkError(
                f"the answer is that there is nothing, but messages up to {pulled.max_offset - 1}"
            )
        return pulled
