"""Why a store accepts no messages."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import StoreNotWritable
from cometmq.store.log.refusals import Cause, Refusals


def test_without_a_reason_messages_are_accepted() -> None:
    refusals = Refusals()
    assert refusals.first is None
    assert all(refusals.of(cause) is None for cause in Cause)


@given(changes=st.lists(st.tuples(st.sampled_from(Cause), st.booleans())))
def test_the_first_of_the_present_reasons_is_named(changes: list[tuple[Cause, bool]]) -> None:
    refusals, expected = Refusals(), dict[Cause, StoreNotWritable]()
    for number, (cause, is_failing) in enumerate(changes):
        error = StoreNotWritable(f"{cause.name} {number}") if is_failing else None
        refusals.set(cause, error)
        if error is None:
            expected.pop(cause, None)
        else:
            expected[cause] = error
        assert refusals.first is (expected[min(expected)] if expected else None)
        assert all(refusals.of(cause) is expected.get(cause) for cause in Cause)
