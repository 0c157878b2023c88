from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from cometmq.spark.filters import FILES, LIVE, Pushed, push

TIME = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("filters", "pushed"),
    [
        ([EqualTo(("topic",), "a")], Pushed(topics=frozenset("a"))),
        ([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], Pushed(topics=frozenset("b"))),
        ([EqualTo(("queue_id",), 3)], Pushed(queue_ids=frozenset({3}))),
        ([In(("queue_id",), (1, 2))], Pushed(queue_ids=frozenset({1, 2}))),
        ([EqualTo(("tags",), "paid")], Pushed(tags=frozenset({"paid"}))),
        ([In(("tags",), ("a", "b"))], Pushed(tags=frozenset("ab"))),
        ([EqualTo(("tags",), "a"), EqualTo(("tags",), "b")], Pushed(tags=frozenset())),
        ([EqualTo(("queue_offset",), 5)], Pushed(begin=5, end=6)),
        ([GreaterThan(("queue_offset",), 5), LessThan(("queue_offset",), 9)], Pushed(begin=6, end=9)),
        (
            [GreaterThanOrEqual(("queue_offset",), 5), LessThanOrEqual(("queue_offset",), 9)],
            Pushed(begin=5, end=10),
        ),
    ],
)
def test_what_can_be_chosen_exactly_is_taken_from_spark(filters: list[Filter], pushed: Pushed) -> None:
    assert push(filters, LIVE) == push(filters, FILES) == (pushed, [])


@pytest.mark.parametrize(
    ("filters", "pushed"),
    [
        ([EqualTo(("store_time",), TIME)], Pushed(begin_time=MS, end_time=MS)),
        (
            [GreaterThan(("store_time",), TIME), LessThan(("store_time",), TIME)],
            Pushed(begin_time=MS, end_time=MS),
        ),
        ([GreaterThanOrEqual(("store_time",), TIME)], Pushed(begin_time=MS)),
        ([LessThanOrEqual(("store_time",), TIME)], Pushed(end_time=MS)),
        ([LessThanOrEqual(("store_time",), TIME.replace(microsecond=1_999))], Pushed(end_time=MS + 1)),
        ([GreaterThan(("store_time",), TIME.replace(year=1900))], Pushed(begin_time=-2_181_520_000_000)),
    ],
)
def test_times_narrow_a_read_and_spark_compares_them_again(filters: list[Filter], pushed: Pushed) -> None:
    assert push(filters, LIVE) == push(filters, FILES) == (pushed, filters)


@pytest.mark.parametrize(
    "one",
    [
        IsNotNull(("tags",)),
        Not(EqualTo(("tags",), "a")),
        EqualTo(("tags",), " a"),
        EqualTo(("tags",), "a||b"),
        EqualTo(("tags",), "*"),
        EqualTo(("properties", "tags"), "a"),
        In(("tags",), ("a", None)),
        EqualTo(("queue_offset",), None),
        EqualTo(("topic",), "a\ufffd"),
        EqualTo(("body",), "a"),
    ],
)
def test_all_else_is_left_to_spark(one: Filter) -> None:
    assert push([one], LIVE) == push([one], FILES) == (Pushed(), [one])


@pytest.mark.parametrize(
    ("one", "pushed"),
    [
        (EqualTo(("unique_id",), "7F"), Pushed(unique_ids=frozenset({"7F"}))),
        (GreaterThanOrEqual(("physical_offset",), 9), Pushed(physical_begin=9)),
        (LessThan(("physical_offset",), 9), Pushed(physical_end=9)),
    ],
)
def test_files_are_also_chosen_by_what_no_broker_looks_for(one: Filter, pushed: Pushed) -> None:
    assert push([one], FILES) == (pushed, [])
    assert push([one], LIVE) == (Pushed(), [one])
