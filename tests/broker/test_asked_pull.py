import pytest
from tests.broker.conftest import Nobody, pull_header

from cometmq.broker.asked_pull import BYTES_MAX, BYTES_MIN, AskedPull, bytes_within_bounds
from cometmq.broker.subscriptions import Wanted
from cometmq.net.server import Server, Session
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command


def asked(**changes: int | None) -> AskedPull:
    header = pull_header("T", 5, queue_id=3)
    for name, value in changes.items():
        setattr(header, name, value)
    session = Session(Server(Nobody()))
    return AskedPull(session, Command(RequestCode.PULL_MESSAGE), header, Wanted(frozenset({7})), 6, 1000)


@pytest.mark.parametrize(
    ("size", "given"), [(0, BYTES_MIN), (-1, BYTES_MIN), (500, 500), (2**31 - 1, BYTES_MAX)]
)
def test_a_pull_is_given_as_many_bytes_as_it_may_ask_for(size: int, given: int) -> None:
    assert asked(max_message_bytes=size).max_bytes == bytes_within_bounds(size) == given
    assert asked(max_message_bytes=None).max_bytes == BYTES_MAX


@pytest.mark.parametrize(("count", "given"), [(-3, 1), (0, 1), (32, 32)])
def test_a_pull_is_given_one_message_at_least(count: int, given: int) -> None:
    assert asked(max_message_count=count).max_count == given


def test_a_held_pull_waits_behind_what_it_was_looked_at_for() -> None:
    pull = asked()
    assert pull.owner is pull.session
    assert (pull.queue, pull.queue_offset, pull.deadline_ms) == (("T", 3), 6, 1000)
    assert pull.tags_codes == frozenset({7})
