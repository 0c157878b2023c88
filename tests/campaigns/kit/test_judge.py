"""The judge must see each kind of wrong."""

from tests.campaigns.kit.judge import Epoch, Placed, judge

EPOCHS = [Epoch(1, 0, 1_000), Epoch(3, 1_000, 2**63)]
ONE, OTHER = "10.77.0.2:1", "10.77.0.3:1"
ACKS = [Placed("0-1", ONE, 0, 0, 0), Placed("0-2", OTHER, 1_000, 0, 1)]
LOG = list(ACKS)


def test_a_log_with_all_that_was_acknowledged_is_right() -> None:
    verdict = judge(ACKS, LOG, EPOCHS)
    assert verdict.is_right
    assert verdict.acknowledged == 2


def test_a_message_that_was_cut_off_is_lost() -> None:
    assert judge(ACKS, LOG[:1], EPOCHS).lost == ["0-2"]


def test_a_message_at_another_place_was_moved() -> None:
    elsewhere = LOG[1]._replace(physical_offset=1_400)
    assert judge(ACKS, [LOG[0], elsewhere], EPOCHS).moved == ["0-2"]


def test_an_acknowledgement_whose_place_another_message_has_was_moved() -> None:
    swapped = [LOG[0], Placed("0-3", OTHER, 1_000, 0, 1), Placed("0-2", OTHER, 1_200, 0, 2)]
    verdict = judge(ACKS, swapped, EPOCHS)
    assert verdict.moved == ["0-2"]
    assert verdict.disordered == ["0-2"]


def test_two_brokers_that_acknowledge_in_one_epoch_are_seen_even_if_the_log_has_one_of_them() -> None:
    late = Placed("1-1", ONE, 1_200, 1, 0)
    verdict = judge([*ACKS, late], [*LOG, Placed("1-1", OTHER, 1_400, 1, 0)], EPOCHS)
    assert verdict.shared == {3: [ONE, OTHER]}


def test_two_brokers_that_wrote_in_one_epoch_are_seen() -> None:
    assert judge([], [LOG[0], LOG[1]._replace(physical_offset=500)], EPOCHS).shared == {1: [ONE, OTHER]}


def test_a_message_that_was_sent_again_counts_as_doubled_and_is_in_order() -> None:
    again = Placed("0-1", OTHER, 1_200, 0, 2)
    verdict = judge(ACKS, [*LOG, again], EPOCHS)
    assert verdict.is_right
    assert verdict.doubled == 1


def test_without_epochs_each_broker_may_have_written_anything() -> None:
    assert judge(ACKS, [ACKS[0], ACKS[1]._replace(physical_offset=500)]).moved == ["0-2"]
    assert judge(ACKS, LOG).is_right
