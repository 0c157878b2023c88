"""Apply WHERE clauses to a read, so that fewer messages are read.

=====================  ================================  =========================  =========================
column                 clauses                           of live topics             of files
=====================  ================================  =========================  =========================
topic, queue_id        ``=``, ``IN``                     other queues are left out  records are chosen
queue_offset           ``=``, ``<``, ``<=``, ``>``,      ranges are cut             records are chosen
                       ``>=``
tags                   ``=``, ``IN``                     brokers filter             records are chosen
store_time             as ``queue_offset``               ranges are cut, roughly    records are chosen,
                                                                                    roughly
unique_id              ``=``, ``IN``                     Spark does it              records are chosen
physical_offset        as ``queue_offset``               Spark does it              tasks are cut
=====================  ================================  =========================  =========================

Store times are not always in order within a queue, so ranges are cut a minute off the time in the clause; and
they have milliseconds, where Spark has microseconds. Spark compares the times again.
"""

import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
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
LIVE: Final = ("topic", "queue_id", "queue_offset", "tags", "store_time")
"""Columns whose clauses a read of live topics can use."""
FILES: Final = (*LIVE, "unique_id", "physical_offset")
"""Columns whose clauses a read of files can use."""

_PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_TIME: Final = "store_time"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CHOSEN: Final[dict[str, tuple[str, type]]] = {
    "topic": ("topics", str),
    "queue_id": ("queue_ids", int),
    "tags": ("tags", str),
    "unique_id": ("unique_ids", str),
}
"""By column, the field of ``Pushed`` for its values, and their type."""
_CUT: Final = {"queue_offset": ("begin", "end"), "physical_offset": ("physical_begin", "physical_end")}
"""By column, the fields of ``Pushed`` for its bounds."""
_REPLACED: Final = "\ufffd"
"""Replaces bytes that are no UTF-8 in columns, so different texts may look the same."""


class Pushed(NamedTuple):
    """The conditions of the clauses that a read applies; None for no condition.

    Attributes:
        begin: first queue offset; ``end`` is behind the last.
        begin_time: earliest store time, ms since the epoch; ``end_time`` is the latest.
        physical_begin: first physical offset; ``physical_end`` is behind the last.
    """

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    begin: int = 0
    end: int = OFFSET_MAX
    begin_time: int | None = None
    end_time: int | None = None
    unique_ids: frozenset[str] | None = None
    physical_begin: int = 0
    physical_end: int = OFFSET_MAX


def push(filters: Iterable[Filter], columns: Collection[str]) -> tuple[Pushed, list[Filter]]:
    """Return the conditions of filters, all of which must hold, and the filters that Spark has to apply.

    Args:
        columns: those whose clauses the read can apply: ``LIVE`` or ``FILES``.
    """
    pushed = Pushed()
    left = []
    for one in filters:
        (column, *parts) = getattr(one, "attribute", ("",))
        narrowed = _narrowed(pushed, one, column) if column in columns and not parts else None
        if narrowed is None or column == _TIME:
            left.append(one)
        pushed = narrowed or pushed
    return pushed, left


def spark_pushes() -> bool:
    """Check whether Spark pushes WHERE clauses to the reader that this process creates.

    It does so in a worker with a main module of its own, if its setting
    ``spark.sql.python.filterPushdown.enabled`` is on and the query has clauses. In any other worker a reader
    with ``pushFilters`` is an error.
    """
    spec = sys.modules["__main__"].__spec__
    return _PUSHING_WORKER in sys.modules or (spec is not None and spec.name == _PUSHING_WORKER)


def _narrowed(pushed: Pushed, one: Filter, column: str) -> Pushed | None:
    """Add one filter to the conditions; None if the read cannot apply it."""
    match one:
        case EqualTo(_, value) if column in _CHOSEN:
            return _chosen(pushed, column, [value])
        case In(_, values) if column in _CHOSEN:
            return _chosen(pushed, column, values)
        case EqualTo(_, int(value)) if column in _CUT:
            return _cut(pushed, column, value, value + 1)
        case GreaterThan(_, int(value)) if column in _CUT:
            return _cut(pushed, column, begin=value + 1)
        case GreaterThanOrEqual(_, int(value)) if column in _CUT:
            return _cut(pushed, column, begin=value)
        case LessThan(_, int(value)) if column in _CUT:
            return _cut(pushed, column, end=value)
        case LessThanOrEqual(_, int(value)) if column in _CUT:
            return _cut(pushed, column, end=value + 1)
        case EqualTo(_, datetime() as time):
            return _until(_since(pushed, time), time)
        case GreaterThan(_, datetime() as time) | GreaterThanOrEqual(_, datetime() as time):
            return _since(pushed, time)
        case LessThan(_, datetime() as time) | LessThanOrEqual(_, datetime() as time):
            return _until(pushed, time)
    return None


def _chosen(pushed: Pushed, column: str, values: Sequence[Any]) -> Pushed | None:
    field, kind = _CHOSEN[column]
    if not all(isinstance(value, kind) and _is_exact(column, value) for value in values):
        return None
    changed: dict[str, Any] = {field: both(getattr(pushed, field), frozenset(values))}
    return pushed._replace(**changed)


def _cut(pushed: Pushed, column: str, begin: int = 0, end: int = OFFSET_MAX) -> Pushed:
    first, last = _CUT[column]
    return pushed._replace(
        **{first: max(getattr(pushed, first), begin), last: min(getattr(pushed, last), end)}
    )


def both(some: frozenset[T] | None, others: frozenset[T] | None) -> frozenset[T] | None:
    """Return the intersection of two sets; None stands for all values."""
    if some is None or others is None:
        return others if some is None else some
    return some & others


def _is_exact(column: str, value: object) -> bool:
    """Check whether only one text has this value in the column, and a tag expression can name a tag."""
    if not isinstance(value, str):
        return True
    if column == "tags" and (value in {"", ALL} or value != value.strip() or "|" in value):
        return False
    return _REPLACED not in value


def _since(pushed: Pushed, time: datetime) -> Pushed:
    begin = _ms(time)
    return pushed._replace(begin_time=begin if pushed.begin_time is None else max(begin, pushed.begin_time))


def _until(pushed: Pushed, time: datetime) -> Pushed:
    end = _ms(time)
    return pushed._replace(end_time=end if pushed.end_time is None else min(end, pushed.end_time))


def _ms(time: datetime) -> int:
    return (time.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
