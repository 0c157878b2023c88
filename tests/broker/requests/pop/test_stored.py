import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.refused import Refused
from cometmq.broker.requests.pop.stored import AHEAD_MS, ack_message, check_point_message
from cometmq.broker.timed.delays import Delays
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.pop.check_point import CheckPoint, PopAck
from cometmq.io.clock import ManualClock
from cometmq.store.settings import StoreSettings

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
CHECK_POINT = CheckPoint("T", "g", 3, 5, 1_000_000, 15_000, (0, 2), "broker-a")
ACK = PopAck("T", "g", 3, 5, 1_000_000, "broker-a", (7,))


def test_a_check_point_comes_due_a_second_before_its_messages() -> None:
    message = check_point_message(CHECK_POINT, "revive", 2, HOST, 1_000_001)
    assert (message.topic, message.queue_id, message.body) == ("revive", 2, CHECK_POINT.encode())
    assert (message.tags, message.born_time, message.born_host) == ("ck", 1_000_001, HOST)
    assert properties.decode(message.properties) == {
        "TAGS": "ck",
        "UNIQ_KEY": CHECK_POINT.unique_key,
        "TIMER_DELIVER_MS": str(1_015_000 - AHEAD_MS),
    }


@pytest.mark.parametrize(("offsets", "tag"), [((7,), "ack"), ((5, 7), "bAck")])
def test_an_acknowledgement_comes_due_with_its_messages(offsets: tuple[int, ...], tag: str) -> None:
    ack = ACK._replace(offsets=offsets)
    message = ack_message(ack, 1_015_000, "revive", 2, HOST, 1_000_001)
    assert (message.topic, message.queue_id, message.body, message.tags) == ("revive", 2, ack.encode(), tag)
    assert properties.decode(message.properties) == {
        "TAGS": tag,
        "UNIQ_KEY": ack.unique_key,
        "TIMER_DELIVER_MS": "1015000",
    }


def test_a_broker_s_name_of_a_handle_must_not_hold_a_property() -> None:
    foreign = ACK._replace(broker_name="x\x02REAL_TOPIC\x01T")
    with pytest.raises(MessageIllegal, match="separator"):
        ack_message(foreign, 1_015_000, "revive", 2, HOST, 1_000_001)


@given(st.integers(-2_000, 4 * 86_400_000), st.sampled_from([1000, 100]))
def test_it_waits_as_any_timed_message_does(after_ms: int, precision_ms: int) -> None:
    clock = ManualClock()
    delays = Delays(StoreSettings(timer_precision_ms=precision_ms), clock)
    time_ms = clock.now_ms() + after_ms
    message = ack_message(ACK, time_ms, "revive", 2, HOST, clock.now_ms())
    if after_ms > 3 * 86_400_000:
        with pytest.raises(MessageIllegal, match="timerMaxDelaySec"):
            delays.waiting(message)
        with pytest.raises(MessageIllegal, match="timerMaxDelaySec"):
            delays.until(message, time_ms)
        return
    expected, waiting = delays.waiting(message), delays.until(message, time_ms)
    assert waiting._replace(properties=b"") == expected._replace(properties=b"")
    assert properties.decode(waiting.properties) == properties.decode(expected.properties)


def test_without_the_timer_nothing_waits() -> None:
    delays = Delays(StoreSettings(timer_wheel_enable=False), ManualClock())
    with pytest.raises(Refused, match="timerWheelEnable"):
        delays.until(ack_message(ACK, 1, "revive", 2, HOST, 1), 1)
