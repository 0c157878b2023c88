from cometmq.kernels.text.key_table import KEY_AT, KEY_SIZE, NO_ROW, KeyTable, hash_of


def key_of(number: int) -> bytes:
    return b"%07d" % number * (1 + number % 3)


def find(table: KeyTable, key: bytes) -> int:
    """Find a key as a kernel does."""
    slot = hash_of(key)
    while (number := int(table.slots[slot % len(table.slots)])) != NO_ROW:
        at, size = table.rows[number, [KEY_AT, KEY_SIZE]].tolist()
        if table.keys[at : at + size].tobytes() == key:
            break
        slot += 1
    return number


def test_keys_have_numbers_in_the_order_in_which_they_come() -> None:
    table = KeyTable()
    assert [table.put(key_of(n)) for n in range(500)] == list(range(500))
    assert [table.put(key_of(n)) for n in range(500)] == list(range(500)) and len(table) == 500
    assert [find(table, key_of(n)) for n in range(501)] == [*range(500), NO_ROW]
    assert sorted(table.slots[table.slots != NO_ROW].tolist()) == list(range(500))
    assert len(table.slots) >= 1000 and len(table.slots).bit_count() == 1


def test_keys_that_only_zeros_at_their_end_tell_apart_are_two() -> None:
    table = KeyTable()
    assert [table.put(key) for key in (b"T", b"T\0", b"")] == [0, 1, 2]
    assert [find(table, key) for key in (b"T", b"T\0", b"", b"\0")] == [0, 1, 2, NO_ROW]


def test_each_key_has_zeros_behind_it_up_to_a_whole_word() -> None:
    table = KeyTable()
    for number in range(200):
        table.put(key_of(number))
    for number in range(200):
        at, size = table.rows[number, [KEY_AT, KEY_SIZE]].tolist()
        assert at % 8 == 0 and not table.keys[at + size : at + -(-size // 8) * 8].any()
