from cometmq.kernels.headers.places import CODE, FIELD_COUNT, FLAG, NOT_A_NUMBER, OPAQUE, PLACES_SIZE


def test_a_headers_own_numbers_lie_behind_the_places_of_all_fields() -> None:
    assert list(range(2 * FIELD_COUNT, PLACES_SIZE)) == [CODE, FLAG, OPAQUE]


def test_what_stands_for_a_missing_number_is_none_that_is_read() -> None:
    assert -NOT_A_NUMBER >= 10**18, "numbers of up to 18 digits are read"
