from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.offsets import key_of

KEY = key_of("g", "T")


def test_what_is_handed_out_counts_until_it_is_acknowledged_or_revived() -> None:
    counts = InFlight(1_000)
    counts.add(KEY, 1, 3)
    counts.add(KEY, 1, 2)
    counts.remove("g", "T", 1, 1_000)
    counts.remove("g", "T", 1, 1_000, 2)
    assert (counts.count("g", "T", 1), counts.count("g", "T", 0), counts.count("h", "T", 1)) == (2, 0, 0)


def test_what_was_handed_out_before_the_start_does_not_count() -> None:
    counts = InFlight(1_000)
    counts.add(KEY, 0, 1)
    counts.remove("g", "T", 0, 999)
    assert counts.count("g", "T", 0) == 1


def test_a_second_acknowledgement_makes_no_count_negative() -> None:
    counts = InFlight(0)
    counts.add(KEY, 0, 1)
    counts.remove("g", "T", 0, 5, 2)
    counts.remove("g", "U", 0, 5)
    assert counts.count("g", "T", 0) == 0
    counts.add(KEY, 0, 1)
    assert counts.count("g", "T", 0) == 1


def test_a_reset_clears_a_queue_and_a_deletion_all() -> None:
    counts = InFlight(0)
    for queue_id in (0, 1):
        counts.add(KEY, queue_id, 1)
    counts.clear("g", "T", 0)
    counts.clear("h", "T", 0)
    assert (counts.count("g", "T", 0), counts.count("g", "T", 1)) == (0, 1)
    counts.delete([KEY, key_of("h", "T")])
    assert counts.count("g", "T", 1) == 0
