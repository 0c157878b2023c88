import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cometmq.spark.sink.row_keys import RowKeys

ROWS = st.lists(st.tuples(st.sampled_from(["t", "u"]), st.binary(max_size=2)), max_size=30)


def keys_of(write: str, rows: list[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], str]]:
    keys = RowKeys(write)
    return [(row, keys.key({}, row)) for row in rows]


@given(ROWS, st.randoms(use_true_random=False))
def test_keys_are_the_same_whatever_the_order_and_different_for_each_row(
    rows: list[tuple[Any, ...]], chance: random.Random
) -> None:
    first = keys_of("query-7-0", rows)
    chance.shuffle(rows)
    assert sorted(keys_of("query-7-0", rows)) == sorted(first)
    assert len({key for _, key in first}) == len(rows)


@given(ROWS, st.data())
def test_of_rows_that_an_attempt_did_not_come_to_no_key_is_taken(
    rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    killed_at = data.draw(st.integers(0, len(rows)))
    sent = {key: row for row, key in keys_of("w", data.draw(st.permutations(rows)))[:killed_at]}
    again = {key: row for row, key in keys_of("w", rows)}
    assert sent.items() <= again.items()  # so what is stored in the end is each row once


def test_another_task_has_other_keys() -> None:
    row = ("t", b"1")
    assert keys_of("query-7-0", [row]) != keys_of("query-7-1", [row])


def test_the_column_that_the_user_names_is_the_key_where_it_is_not_null() -> None:
    keys = RowKeys("w", "order_id")
    assert keys.key({"order_id": "42"}, ("t", b"1")) == keys.key({"order_id": "42"}, ("t", b"2")) == "42"
    assert keys.key({"order_id": None}, ("t", b"1")) == RowKeys("w").key({}, ("t", b"1"))
