from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.refused import Refused
from cometmq.broker.state.pop.handles import HandlePoint
from cometmq.broker.timed import revive_log as stored
from cometmq.broker.timed.delays import Delays
from cometmq.broker.timed.revive_log import AHEAD_MS, ReviveLog
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.pop.check_point import CheckPoint, PopAck, decode_ack, encode_ack
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.io.clock import ManualClock
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
CHECK_POINT = CheckPoint("T", "g", 3, 5, 1_000_000, 15_000, (0, 2), "broker-a")
ACK = PopAck("T", "g", 3, 5, 1_000_000, "broker-a", (7,))
NOW_MS = ManualClock().now_ms()


def point(revive_time_ms: int = 1_015_000, **changes: Any) -> HandlePoint:
    """Return the check point of ``ACK``, in revive queue 2."""
    return HandlePoint(ACK.key._replace(**changes), revive_time_ms, 2)


def log(clock: ManualClock | None = None, **settings: Any) -> ReviveLog:
    """Return what builds messages; it has no store."""
    clock = clock or ManualClock()
    store: Any = None
    return ReviveLog(store, Delays(StoreSettings(**settings), clock), clock, "revive", HOST, "broker-a")


def test_a_check_point_comes_due_a_second_before_its_messages() -> None:
    message = log().check_point(CHECK_POINT, 2).message
    assert (message.topic, message.queue_id, message.body) == ("revive", 2, CHECK_POINT.encode())
    assert (message.tags, message.born_time, message.born_host) == ("ck", NOW_MS, HOST)
    assert properties.decode(message.properties) == {
        "TAGS": "ck",
        "UNIQ_KEY": "T@3@5@g@1000000@broker-a@ck",
        "TIMER_DELIVER_MS": str(1_015_000 - AHEAD_MS),
    }


@pytest.mark.parametrize(("offsets", "tag", "offset"), [((7,), "ack", 7), ((5, 7), "bAck", -1)])
def test_an_acknowledgement_comes_due_with_its_messages(
    offsets: tuple[int, ...], tag: str, offset: int
) -> None:
    message = log().ack(point(), offsets).message
    assert (message.topic, message.queue_id, message.tags) == ("revive", 2, tag)
    assert decode_ack(message.body) == ACK._replace(offsets=offsets)
    assert properties.decode(message.properties) == {
        "TAGS": tag,
        "UNIQ_KEY": f"T@3@{offset}@g@1000000@broker-a@ack",
        "TIMER_DELIVER_MS": "1015000",
    }


def test_an_acknowledgement_waits_no_longer_once_its_time_has_come() -> None:
    clock = ManualClock()
    due, at = log(clock), NOW_MS + 1
    for wait_ms, topic in ((0, TIMER_TOPIC), (1, "revive"), (-1, TIMER_TOPIC)):
        clock.advance(wait_ms)
        assert {due.ack(point(at), offsets).message.topic for offsets in ((7,), (5, 7))} == {topic}


def test_check_points_with_long_names_are_not_remembered() -> None:
    due = log()
    stored._formats_of.cache_clear()
    for size in (stored.NAMES_LENGTH_MAX, stored.NAMES_LENGTH_MAX + 1):
        message = due.ack(point(group="g", broker_name="b" * (size - 1)), (7,)).message
        assert decode_ack(message.body).broker_name == "b" * (size - 1)
    assert due._remembered.cache_info().currsize == stored._formats_of.cache_info().currsize == 1


def test_properties_that_are_too_long_are_refused() -> None:
    with pytest.raises(MessageIllegal, match="the limit is 32767"):
        log().ack(point(broker_name="b" * 32_767), (7,))


def test_a_broker_s_name_of_a_handle_must_not_hold_a_property() -> None:
    with pytest.raises(MessageIllegal, match="separator"):
        log().ack(point(broker_name="x\x02REAL_TOPIC\x01T"), (7,))


@given(st.integers(-2_000, 4 * 86_400_000), st.sampled_from([1000, 100]))
def test_it_waits_as_any_timed_message_does(after_ms: int, precision_ms: int) -> None:
    time_ms, due = NOW_MS + after_ms, log(timer_precision_ms=precision_ms)
    named = {"TAGS": "ack", "UNIQ_KEY": "T@3@7@g@1000000@broker-a@ack", "TIMER_DELIVER_MS": str(time_ms)}
    _, _, body = encode_ack(ACK.offsets, ACK.key.ack_members())
    message = NewMessage(*("revive", 2, body, properties.encode(named)), *(NOW_MS, HOST, HOST, "ack"))
    delays = Delays(StoreSettings(timer_precision_ms=precision_ms), ManualClock())
    if after_ms > 3 * 86_400_000:
        assert not due.can_wait(time_ms)
        with pytest.raises(MessageIllegal, match="timerMaxDelaySec"):
            delays.waiting(message)
        with pytest.raises(MessageIllegal, match="timerMaxDelaySec"):
            due.ack(point(time_ms), ACK.offsets)
        return
    assert due.can_wait(time_ms)
    expected, waiting = delays.waiting(message), due.ack(point(time_ms), ACK.offsets).message
    assert waiting._replace(properties=b"") == expected._replace(properties=b"")
    assert properties.decode(waiting.properties) == properties.decode(expected.properties)


def test_without_the_timer_nothing_waits() -> None:
    without = log(timer_wheel_enable=False)
    assert not without.can_wait(1)
    with pytest.raises(Refused, match="timerWheelEnable"):
        without.ack(point(1), ACK.offsets)
