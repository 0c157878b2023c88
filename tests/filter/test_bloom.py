import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.filter.bloom import BloomFilter, bits_of, murmur3, unpack

# What RocketMQ 5.5.0's BloomFilter.createByFn(error, expected) said of these names.
NAMES = ["", "a", "cg3#TopicC", "x0123456789abcdef", "消费组#主题", "0123456789abcdef0123456789abcdef!"]
POSITIONS = {
    (20, 32, 112): [(0, 0, 0), (94, 99, 7), (21, 54, 18), (39, 29, 45), (101, 21, 111), (85, 32, 91)],
    (10, 128, 616): [
        (0, 0, 0, 0),
        (262, 603, 287, 365),
        (525, 54, 18, 598),
        (207, 365, 605, 583),
        (381, 525, 111, 179),
        (589, 592, 595, 17),
    ],
    (50, 7, 16): [(0,), (14,), (5,), (7,), (5,), (5,)],
    (99, 5, 8): [(0,), (6,), (5,), (7,), (5,), (5,)],
}


@pytest.mark.parametrize(("sizes", "expected"), POSITIONS.items())
def test_a_name_owns_the_positions_that_rocketmq_gives_it(
    sizes: tuple[int, int, int], expected: list[tuple[int, ...]]
) -> None:
    bloom = BloomFilter(*sizes[:2])
    assert (bloom.bit_count, bloom.hash_count) == (sizes[2], len(expected[0]))
    assert [bloom.positions(name) for name in NAMES] == expected


def test_a_bitmap_has_the_bytes_of_rocketmqs_bits_array() -> None:
    bloom = BloomFilter(20, 32)
    bits = bits_of(bloom.positions("cg3#TopicC")) | bits_of(bloom.positions("a"))
    assert bloom.pack(bits).hex() == "8000240000004000000000400800"
    assert unpack(bloom.pack(bits)) == bits


def test_the_hash_is_that_of_the_reference() -> None:
    assert murmur3(b"") == 0
    assert murmur3(b"hello") == 0xCBD8A7B341BD9B02


@given(st.sets(st.text(), max_size=32), st.integers(1, 99), st.integers(1, 1_000))
def test_who_is_in_a_bitmap_is_found_in_it(names: set[str], error_percent: int, expected: int) -> None:
    bloom = BloomFilter(error_percent, expected)
    owned = [bits_of(bloom.positions(name)) for name in names]
    bits = 0
    for own in owned:
        bits |= own
    packed = bloom.pack(bits)
    assert len(packed) * 8 == bloom.bit_count
    assert all(unpack(packed) & own == own for own in owned)
