"""WHERE clauses that choose what is pulled, so that the rest need not be.

=====================  ==============================================  =========================
column                 clauses                                         what is done
=====================  ==============================================  =========================
topic, queue_id        ``=``, ``IN``                                   other queues are left out
queue_offset           ``=``, ``<``, ``<=``, ``>``, ``>=``             ranges are cut
tags                   ``=``, ``IN``                                   brokers filter
store_time             ``=``, ``<``, ``<=``, ``>``, ``>=``             ranges are cut, roughly
=====================  ==============================================  =========================

Store times are not always in order within a queue, so it is cut a minute away from the time that is asked
for, and Spark compares the times again.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from cometmq.filter.tag import ALL

T = TypeVar("T")

OFFSET_MAX: Final = 2**63 - 1


class Pushed(NamedTuple):
    """What clauses leave of a read; None for no limit.

    Attributes:
        begin: first queue offset; ``end`` is behind the last.
        begin_time: store time, ms since the epoch, of the earliest message; ``end_time`` that of the last.
    """

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    begin: int = 0
    end: int = OFFSET_MAX
    begin_time: int | None = None
    end_time: int | None = None


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """Give what filters, which all must hold, leave of a read; and those that Spark still has to apply."""
    pushed = Pushed()
    left = []
    for one in filters:
        narrowed = _narrowed(pushed, one)
        if narrowed is None or getattr(one, "attribute", None) == ("store_time",):
            left.append(one)
        pushed = narrowed or pushed
    return pushed, left


def _narrowed(pushed: Pushed, one: Filter) -> Pushed | None:
    """Give what one filter leaves, or None if nothing can be made of it."""
    match one:
        case EqualTo(("topic",), str(value)):
            return pushed._replace(topics=_both(pushed.topics, [value]))
        case In(("topic",), values) if _all(values, str):
            return pushed._replace(topics=_both(pushed.topics, values))
        case EqualTo(("queue_id",), int(value)):
            return pushed._replace(queue_ids=_both(pushed.queue_ids, [value]))
        case In(("queue_id",), values) if _all(values, int):
            return pushed._replace(queue_ids=_both(pushed.queue_ids, values))
        case EqualTo(("tags",), str(value)) if _is_tag(value):
            return pushed._replace(tags=_both(pushed.tags, [value]))
        case In(("tags",), values) if _all(values, str) and all(map(_is_tag, values)):
            return pushed._replace(tags=_both(pushed.tags, values))
        case EqualTo(("queue_offset",), int(value)):
            return pushed._replace(begin=max(pushed.begin, value), end=min(pushed.end, value + 1))
        case GreaterThan(("queue_offset",), int(value)):
            return pushed._replace(begin=max(pushed.begin, value + 1))
        case GreaterThanOrEqual(("queue_offset",), int(value)):
            return pushed._replace(begin=max(pushed.begin, value))
        case LessThan(("queue_offset",), int(value)):
            return pushed._replace(end=min(pushed.end, value))
        case LessThanOrEqual(("queue_offset",), int(value)):
            return pushed._replace(end=min(pushed.end, value + 1))
        case EqualTo(("store_time",), datetime() as time):
            return _until(_since(pushed, time), time)
        case GreaterThan(("store_time",), datetime() as time) | GreaterThanOrEqual(
            ("store_time",), datetime() as time
        ):
            return _since(pushed, time)
        case LessThan(("store_time",), datetime() as time) | LessThanOrEqual(
            ("store_time",), datetime() as time
        ):
            return _until(pushed, time)
    return None


def _both(known: frozenset[T] | None, values: Iterable[T]) -> frozenset[T]:
    return frozenset(values) if known is None else known.intersection(values)


def _all(values: Sequence[Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _is_tag(text: str) -> bool:
    """Whether a tag expression can say it."""
    return text not in {"", ALL} and text == text.strip() and "|" not in text


def _since(pushed: Pushed, time: datetime) -> Pushed:
    begin = max(_ms(time), pushed.begin_time or 0)
    return pushed._replace(begin_time=begin)


def _until(pushed: Pushed, time: datetime) -> Pushed:
    end = _ms(time)
    return pushed._replace(end_time=end if pushed.end_time is None else min(end, pushed.end_time))


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
