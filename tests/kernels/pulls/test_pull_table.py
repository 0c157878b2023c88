import numpy as np

from cometmq.kernels.pulls.pull_table import KEY_AT, KEY_SIZE, ROW_SIZE, PullTable


def key_of(number: int) -> np.ndarray:
    return np.frombuffer(b"%08d" % number * (1 + number % 3), np.uint8)


def test_keys_have_numbers_in_the_order_in_which_they_come() -> None:
    table = PullTable()
    assert [table.put(key_of(n), n * 64) for n in range(500)] == list(range(500))
    assert [table.put(key_of(n), n * 64) for n in range(500)] == list(range(500)) and table.count == 500
    for number in range(500):
        at, size = (int(table.rows[number * ROW_SIZE + place]) for place in (KEY_AT, KEY_SIZE))
        assert table.keys[at : at + size].tobytes() == key_of(number).tobytes()
    assert sorted(table.slots[table.slots >= 0].tolist()) == list(range(500))
    assert len(table.slots) >= 1000 and len(table.slots).bit_count() == 1


def test_a_cleared_table_begins_anew() -> None:
    table = PullTable()
    table.put(key_of(1), -5)
    table.clear()
    assert table.count == 0 and (table.slots < 0).all()
    assert table.put(key_of(2), 2**63 - 1) == 0


def test_a_key_is_found_by_its_bytes() -> None:
    table = PullTable()
    table.put(key_of(1), 7)
    assert table.numbers == {key_of(1).tobytes(): 0}
