"""The outbox against a transport that the test plays, and the received bytes taken a share at a time."""

import asyncio
from collections.abc import Iterable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.message import Buffer
from cometmq.net.flow import HIGH_WATER, JOIN_MAX, FlowLimits, Intake, Outbox

MIB = 1 << 20
STEPS = st.lists(st.one_of(st.binary(min_size=1, max_size=20), st.integers(1, 30)))


class PlayedTransport(asyncio.Transport):
    """Accepts everything, keeps it, and reports how full it is as the test likes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.buffered = 0
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = low, high

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: Buffer) -> None:
        assert not self.closing
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self.reading = False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True


def outbox_of(transport: PlayedTransport) -> Outbox:
    return Outbox(transport, FlowLimits(unsent_max=4 * MIB))


async def end_of_turn() -> None:
    """Return when all that was scheduled before has run."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


async def test_all_that_is_put_in_one_turn_leaves_in_one_write() -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    for number in range(1000):
        assert outbox.put(b"%d;" % number)
    assert transport.writes == []
    await end_of_turn()
    assert transport.writes == [b"".join(b"%d;" % number for number in range(1000))]


@pytest.mark.parametrize("size", [JOIN_MAX // 4, JOIN_MAX])
async def test_what_is_put_between_cork_and_flush_leaves_in_one_write(size: int) -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    outbox.cork()
    outbox.put(memoryview(bytes(size)))
    outbox.put(bytearray(b"tail"))
    outbox.flush()
    assert transport.writes == [bytes(size) + b"tail"]
    outbox.put(b"late")
    await end_of_turn()
    assert transport.writes[1:] == [b"late"]


async def test_nothing_is_taken_above_the_limit_of_unsent_bytes() -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    outbox.congest()
    transport.buffered = 4 * MIB - 10
    assert outbox.put(b"x" * 10)
    assert outbox.unsent == 4 * MIB
    assert not outbox.put(b"x")
    assert outbox.unsent == 4 * MIB


async def test_one_answer_larger_than_the_limit_can_be_sent_to_a_peer_that_reads() -> None:
    transport = PlayedTransport()
    assert outbox_of(transport).put(bytes(8 * MIB))
    assert [len(data) for data in transport.writes] == [8 * MIB]


async def test_a_large_answer_leaves_at_once_so_that_the_next_one_sees_the_congestion() -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    outbox.cork()
    outbox.put(bytes(HIGH_WATER))
    assert [len(data) for data in transport.writes] == [HIGH_WATER]


async def test_deferred_answers_are_made_in_order_until_the_peer_is_congested_again() -> None:
    outbox = outbox_of(PlayedTransport())
    done: list[int] = []

    def answer(number: int) -> None:
        done.append(number)
        if number % 2:
            outbox.congest()

    answer(1)
    for number in range(2, 6):
        outbox.when_drained(partial(answer, number))
    assert done == [1]
    outbox.drain()
    assert done == [1, 2, 3]
    outbox.drain()
    assert done == [1, 2, 3, 4, 5]
    outbox.drain()
    outbox.when_drained(partial(answer, 6))
    assert done[-1] == 6


async def test_close_sends_what_was_put_in_and_drops_what_was_deferred() -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    outbox.put(b"last words")
    outbox.congest()
    outbox.when_drained(lambda: pytest.fail("deferred beyond the end"))
    outbox.close()
    outbox.drain()
    assert transport.writes == [b"last words"] and transport.closing
    outbox.put(b"too late")
    await end_of_turn()


async def test_abort_forgets_everything() -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    outbox.put(b"never sent")
    outbox.abort()
    await end_of_turn()
    assert transport.writes == [] and transport.closing and outbox.unsent == 0


async def test_what_is_written_at_once_overtakes_nothing() -> None:
    transport = PlayedTransport()
    outbox = outbox_of(transport)
    assert outbox.write(b"a") and transport.writes == [b"a"]
    outbox.put(b"b")
    assert outbox.write(b"c") and transport.writes == [b"a"]
    await end_of_turn()
    assert transport.writes == [b"a", b"bc"]
    outbox.congest()
    transport.buffered = 4 * MIB
    assert not outbox.write(b"d"), "the limit holds"


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
