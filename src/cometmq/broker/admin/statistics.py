"""VIEW_BROKER_STATS_DATA: how much went into topics and out to groups in the last minute, hour and day.

No send and no pull counts anything for this. Every ten seconds, and for each scrape of metrics, the pointers
that exist anyway are compared with those before: the ends of all queues, and the offsets up to which groups
have pulled.
What an idle broker does for it is to compare one array.

==================== =================== =============================================================
Statistic            Key                 What is exact
==================== =================== =============================================================
BROKER_PUT_NUMS      cluster             exact
BROKER_GET_NUMS      cluster             exact
TOPIC_PUT_NUMS       topic               exact: messages that became readable in its queues; a delayed
                                         one counts when it is delivered
QUEUE_PUT_NUMS       topic@queueId       exact, as before
…_PUT_SIZE           as above            bytes of these messages' records: exact up to EXACT_MAX messages
                                         in a queue between two samples, beyond that the mean of the
                                         newest ones times their number
GROUP_GET_NUMS       topic@group         messages that pulls went past and the group's tags select, exact
                                         like sizes. Not told apart: what an SQL92 filter leaves out, and
                                         the members of a broadcasting group. Messages that are read
                                         again count again only if a sample falls between
QUEUE_GET_NUMS       topic@queueId@group as before
…_GET_SIZE           as above            bytes of these messages' records
SNDBCK_PUT_NUMS      topic@group         exact: counted when a consumer sends a message back
==================== =================== =============================================================

A group's pulls begin at the offset that it had committed when the broker started, else at the beginning of
the queue. No move counts as more messages than the broker delivered in all since the last sample; a first one
that is longer was a jump to a later offset, and does not count.

Samples are kept as RocketMQ keeps them: 7 of ten seconds, 7 of ten minutes, 25 of an hour; the sum is the
difference of the last and the first one. ``avgpt`` is the sum per message.
Source: ``BrokerStatsManager.java``, ``StatsItem.java``.
"""

import asyncio
from collections import deque
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import numpy as np

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import read
from cometmq.broker.refused import Refused
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.offsets import SEPARATOR, Offsets
from cometmq.broker.state.rates import Rates
from cometmq.format.java import fastjson
from cometmq.io.clock import Clock
from cometmq.kernels.arrays import Longs
from cometmq.net.server import Session
from cometmq.store.queue.queue_ends import Entries
from cometmq.store.queue.queues import QueueKey
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers.admin import StatisticHeader

SAMPLE_MS: Final = 10_000
SPANS: Final = {"statsMinute": (1, 7), "statsHour": (60, 7), "statsDay": (360, 25)}
"""By name in the answer: at each how many samples one is kept, and how many are kept."""

EXACT_MAX: Final = 2_048
"""Most entries of one queue that are read for a sample, the newest ones."""
TURN_MAX: Final = 50
"""Number of queues whose entries one turn of the loop reads."""


class _Sample(NamedTuple):
    """All counts at one time, each since the start.

    Attributes:
        time_ms: on the monotonic clock.
        broker: messages stored and delivered, ``int64[2]``.
        puts, put_bytes: ``int64[n]`` by queue number.
        gets, get_bytes: ``int64[n]`` by the number of a group's pulls in a queue.
        sent_back: ``int64[n]`` in the order of ``Rates.sent_back``.
    """

    time_ms: int
    broker: Longs
    puts: Longs
    put_bytes: Longs
    gets: Longs
    get_bytes: Longs
    sent_back: Longs


_COLUMNS: Final = {
    "BROKER_PUT_NUMS": ("broker", "broker"),
    "BROKER_GET_NUMS": ("broker", "broker"),
    "TOPIC_PUT_NUMS": ("puts", "puts"),
    "TOPIC_PUT_SIZE": ("put_bytes", "puts"),
    "QUEUE_PUT_NUMS": ("puts", "puts"),
    "QUEUE_PUT_SIZE": ("put_bytes", "puts"),
    "GROUP_GET_NUMS": ("gets", "gets"),
    "GROUP_GET_SIZE": ("get_bytes", "gets"),
    "QUEUE_GET_NUMS": ("gets", "gets"),
    "QUEUE_GET_SIZE": ("get_bytes", "gets"),
    "SNDBCK_PUT_NUMS": ("sent_back", "sent_back"),
}
"""By name, the counts in a sample that a statistic sums, and those of its messages."""


class _Move(NamedTuple):
    """A group's pulls in a queue between two samples; ``is_assumed`` if where they began is not known."""

    key: QueueKey
    group: str
    number: int
    begin: int
    end: int
    is_assumed: bool


class Statistics:
    """Samples the counts of queues and groups, and answers requests for them."""

    def __init__(
        self,
        store: MessageStore,
        offsets: Offsets,
        consumers: Consumers[Session],
        rates: Rates,
        clock: Clock,
        *,
        cluster: str,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._consumers = consumers
        self._rates = rates
        self._clock = clock
        self._cluster = cluster
        self._ends = store.queue_ends.copy()
        self._resumed = offsets.copies(offsets.keys())  # where groups go on after the start
        self._sums: dict[str, int] = {}  # of the pulled offsets, by key: a look at each group, not each queue
        self._pulls: dict[str, dict[int, int]] = {}  # the numbers of pulls by key and queue id
        self._pulled: list[int] = []  # the pulled offsets by these numbers
        nothing = np.zeros(0, np.int64)
        self._last = _Sample(clock.monotonic_ms(), self._broker(), *[nothing] * 5)
        self._samples = {name: deque([self._last], kept) for name, (_, kept) in SPANS.items()}
        self._count = 0
        self._counting = asyncio.Lock()

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {RequestCode.VIEW_BROKER_STATS_DATA: self.view}

    def view(self, _session: Session, command: Command, header: StatisticHeader) -> Command:
        """VIEW_BROKER_STATS_DATA."""
        name, key = header.name, header.key
        numbers = np.array(self._numbers(name, key), np.int64)
        if name not in _COLUMNS or not _total(getattr(self._last, _COLUMNS[name][1]), numbers):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        body = {span: self._difference(span, name, numbers) for span in sorted(SPANS)}
        return response(command, body=fastjson.dumps(body).encode())

    def tps(self, name: str, key: str) -> float:
        """Return what a statistic counted per second of the last minute; 0 if there is none of that key."""
        numbers = self._numbers(name, key)
        return self._difference("statsMinute", name, np.array(numbers, np.int64))["tps"] if numbers else 0.0

    def put_totals(self, topic: str) -> tuple[int, int]:
        """Return the messages that a topic has got since the start, by the last count, and their bytes."""
        numbers = np.array(self._numbers("TOPIC_PUT_NUMS", topic), np.int64)
        return _total(self._last.puts, numbers), _total(self._last.put_bytes, numbers)

    def get_totals(self) -> list[tuple[str, str, int, int]]:
        """Return topics and the groups that have pulled, with their messages and bytes by the last count."""
        found: list[tuple[str, str, int, int]] = []
        for key, pulls in self._pulls.items():
            topic, _, group = key.partition(SEPARATOR)
            numbers = np.array(list(pulls.values()), np.int64)
            counts = _total(self._last.gets, numbers), _total(self._last.get_bytes, numbers)
            found.append((topic, group, *counts))
        return found

    async def sample(self) -> None:
        """Count, and keep the counts as a sample; call it every SAMPLE_MS. Raises OSError."""
        await self.count()
        self._count += 1
        for name, (every, _) in SPANS.items():
            if self._count % every == 0:
                self._samples[name].append(self._last)

    async def count(self) -> None:
        """Count what has changed since the last count. Raises OSError."""
        async with self._counting:
            await self._count_changes()

    async def _count_changes(self) -> None:
        time_ms, before = self._clock.monotonic_ms(), self._last
        broker, ends, seen = self._broker(), self._store.queue_ends.copy(), self._ends
        sent_back = self._rates.sent_back
        counts = before._replace(time_ms=time_ms, broker=broker)
        if sent_back.total() != before.sent_back.sum():
            counts = counts._replace(sent_back=np.array(list(sent_back.values()), np.int64))
        delivered = int(broker[1] - before.broker[1])
        moves = self._moves() if delivered else []
        if moves or not np.array_equal(ends, seen):
            counts = counts._replace(
                puts=_with_room(before.puts, len(ends)),
                put_bytes=_with_room(before.put_bytes, len(ends)),
                gets=_with_room(before.gets, len(self._pulled)),
                get_bytes=_with_room(before.get_bytes, len(self._pulled)),
            )
            await read(self._store, self._count_puts(counts, _with_room(seen, len(ends)), ends))
            await read(self._store, self._count_gets(counts, moves, delivered))
            self._ends = ends
        self._last = counts

    def _difference(self, span: str, name: str, numbers: Longs) -> dict[str, float]:
        counts, messages = _COLUMNS[name]
        return _difference(
            [
                (
                    sample.time_ms,
                    _total(getattr(sample, counts), numbers),
                    _total(getattr(sample, messages), numbers),
                )
                for sample in self._samples[span]
            ]
        )

    def _numbers(self, name: str, key: str) -> Sequence[int]:
        """Return the numbers of the counts that a statistic sums; none if there are none of that key."""
        topic, *others = key.split(SEPARATOR)
        if name == "BROKER_PUT_NUMS" or name == "BROKER_GET_NUMS":
            return [int(name == "BROKER_GET_NUMS")] if key == self._cluster else []
        if name == "SNDBCK_PUT_NUMS":
            return [number for number, known in enumerate(self._rates.sent_back) if known == key]
        if name.startswith("GROUP_GET_"):
            return list(self._pulls_of(key).values())
        if name.startswith("QUEUE_GET_") and len(others) == 2:
            pulls = self._pulls_of(f"{topic}{SEPARATOR}{others[1]}")
            return [number for queue_id, number in pulls.items() if str(queue_id) == others[0]]
        queues = self._store.queue_ends.numbers_of(topic) if name.endswith(("_PUT_NUMS", "_PUT_SIZE")) else {}
        if name.startswith("QUEUE_PUT_"):
            return [number for queue_id, number in queues.items() if [str(queue_id)] == others]
        return list(queues.values()) if name.startswith("TOPIC_PUT_") and not others else []

    def _pulls_of(self, key: str) -> dict[int, int]:
        return self._pulls.get(key, {}) if key in self._offsets.all_pulled() else {}

    def _broker(self) -> Longs:
        return np.array([self._rates.stored.total, self._rates.delivered.total], np.int64)

    def _moves(self) -> list[_Move]:
        """Return the queues in which groups have pulled since the last sample."""
        moves: list[_Move] = []
        pulled = self._offsets.all_pulled()
        if len(self._sums) > len(pulled):
            for gone in self._sums.keys() - pulled.keys():
                del self._sums[gone], self._pulls[gone]
        for key, queues in pulled.items():
            total = sum(queues.values())
            if self._sums.get(key) == total:
                continue
            self._sums[key] = total
            topic, _, group = key.partition(SEPARATOR)
            numbers = self._pulls.setdefault(key, {})
            for queue_id, end in queues.items():
                is_assumed = False
                if queue_id not in numbers:
                    numbers[queue_id] = len(self._pulled)
                    resumed = self._resumed.get(key, {}).pop(queue_id, None)
                    is_assumed = resumed is None
                    self._pulled.append(0 if resumed is None else resumed)
                number = numbers[queue_id]
                begin, self._pulled[number] = self._pulled[number], end
                if end > begin:
                    moves.append(_Move((topic, queue_id), group, number, begin, end, is_assumed))
        return moves

    def _count_puts(self, counts: _Sample, seen: Longs, ends: Longs) -> Reading[None]:
        """Add to ``counts`` what queues have got since they ended at ``seen``.

        A queue whose new messages are not readable yet is left to the next sample: its end is set back.
        """
        for turn, number in enumerate(np.flatnonzero(ends > seen).tolist()):
            if turn % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            key, begin = self._store.queue_ends.key_of(number), int(seen[number])
            if key is None:
                continue
            count, size = yield from self._measure(key, begin, int(ends[number]))
            if not count:
                ends[number] = begin
            counts.puts[number] += count
            counts.put_bytes[number] += size

    def _count_gets(self, counts: _Sample, moves: Sequence[_Move], delivered: int) -> Reading[None]:
        """Add to ``counts`` what groups have pulled; no move counts as more than was delivered in all."""
        for turn, move in enumerate(moves):
            if turn % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            count, size = yield from self._measure(move.key, move.begin, move.end, self._tags_codes(move))
            if count > delivered:
                size, count = (0, 0) if move.is_assumed else (size * delivered // count, delivered)
            counts.gets[move.number] += count
            counts.get_bytes[move.number] += size

    def _measure(
        self, key: QueueKey, begin: int, end: int, tags_codes: Container[int] | None = None
    ) -> Reading[tuple[int, int]]:
        """Count the messages of a part of a queue that tags select, and the bytes of their records."""
        begin = max(begin, self._store.min_queue_offset(*key))
        entries = yield from self._store.queue_ends.entries(key, max(begin, end - EXACT_MAX), end)
        if not len(entries):
            return 0, 0
        sizes = _selected(entries, tags_codes)["size"]
        share = (end - begin) / len(entries)
        return round(len(sizes) * share), round(int(sizes.sum(dtype=np.int64)) * share)

    def _tags_codes(self, move: _Move) -> Container[int] | None:
        """Return the hashes of the tags that a group subscribes to; None for all, or if entries lack them."""
        group = self._consumers.find(move.group)
        subscription = None if group is None else group.subscriptions.get(move.key[0])
        if subscription is None or self._store.settings.enable_consume_queue_ext:
            return None
        return subscription.tags_codes


def _selected(entries: Entries, tags_codes: Container[int] | None) -> Entries:
    """Return the entries whose tags code is one of ``tags_codes``; all of them for None."""
    if tags_codes is None:
        return entries
    codes, places = np.unique(entries["tags_code"], return_inverse=True)
    selected: Entries = entries[np.array([code in tags_codes for code in codes.tolist()], bool)[places]]
    return selected


def _with_room(counts: Longs, count: int) -> Longs:
    """Return a copy of counts with zeros behind them, ``int64[count]``."""
    copied = np.zeros(count, np.int64)
    copied[: len(counts)] = counts
    return copied


def _total(counts: Longs, numbers: Longs) -> int:
    """Return the sum of some counts, 0 for those that a sample does not have yet."""
    return int(counts[numbers[numbers < len(counts)]].sum())


def _difference(points: Sequence[tuple[int, int, int]]) -> dict[str, float]:
    """Return the difference of the last and first of several samples: time in ms, sum, number of messages.

    As in RocketMQ a statistic begins at the last sample that has nothing of it.
    """
    begin = next((at for at, point in enumerate(points) if point[2]), None)
    if begin is None:
        return {"avgpt": 0.0, "sum": 0, "tps": 0.0}
    (first_ms, first, messages), (last_ms, last, messages_now) = points[max(begin - 1, 0)], points[-1]
    total, added, took_ms = last - first, messages_now - messages, last_ms - first_ms
    return {
        "avgpt": total / added if added else 0.0,
        "sum": total,
        "tps": total * 1000 / took_ms if took_ms else 0.0,
    }
