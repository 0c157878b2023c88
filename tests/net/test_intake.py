"""What was received, taken a share at a time."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.net.intake import Intake

STEPS = st.lists(st.one_of(st.binary(min_size=1, max_size=20), st.integers(1, 30)))


@given(STEPS)
def test_bytes_are_given_once_and_in_their_order(steps: list[bytes | int]) -> None:
    intake, added, taken = Intake(), b"", b""
    for step in steps:
        if isinstance(step, bytes):
            intake.add(step)
            added += step
            assert not intake.is_begun
        else:
            part = intake.take(step)
            assert len(part) == min(step, len(added) - len(taken))
            taken += part
            assert intake.is_begun == (0 < len(taken) < len(added) and len(intake) > 0)
        assert len(intake) == len(added) - len(taken)
    assert taken + intake.take(len(added)) == added


def test_what_is_cleared_is_gone() -> None:
    intake = Intake()
    intake.add(b"abc")
    intake.take(1)
    intake.clear()
    assert len(intake) == 0 and not intake.is_begun and intake.take(5) == b""
