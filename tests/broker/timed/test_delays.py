"""A message that asks for a delay or a time: how it is stored until it is due, and how it is delivered."""

import logging

import pytest
from tests.store.conftest import new_message

from cometmq.broker.refused import Refused
from cometmq.broker.timed.delays import (
    Delays,
    delayed,
    due,
    recall_name,
    recall_property,
    recalled_by,
    timed,
    timer_due,
    timer_entry,
)
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.delay_level import DelayLevels
from cometmq.format.record import Record, decode, encode, encode_fields
from cometmq.format.timer.log import DEFAULT, ROLL, Unit
from cometmq.io.clock import ManualClock
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings

NOW = 1_700_000_000_500
LEVELS = DelayLevels.parse("1s 5s 10s")
SETTINGS = StoreSettings(timer_max_delay_sec=60)


def message(**named: str) -> NewMessage:
    return new_message("Orders", 3, tags="A")._replace(properties=properties.encode(named))


def stored(waiting: NewMessage, offset: int = 4_000) -> Record:
    return decode(
        encode_fields(
            waiting.topic,
            waiting.body,
            waiting.properties,
            waiting.queue_id,
            0,
            offset,
            waiting.flag,
            waiting.sys_flag,
            waiting.born_time,
            waiting.born_host,
            7,
            waiting.store_host,
            waiting.reconsume_times,
            0,
        )
    )


def unit(magic: int = DEFAULT) -> Unit:
    return Unit(-1, magic, NOW, 2_000, 4_000, 100, 0)


def delays(**settings: object) -> Delays:
    return Delays(StoreSettings(**settings), ManualClock())  # type: ignore[arg-type]  # tests name the fields


def test_a_level_counts_more_than_a_time() -> None:
    waiting = delays().waiting(message(DELAY="2", TIMER_DELAY_SEC="10", TIMER_DELIVER_MS="x"))
    assert (waiting.topic, waiting.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert properties.decode(waiting.properties).keys() == {"DELAY", "REAL_TOPIC", "REAL_QID"}


@pytest.mark.parametrize("level", ["0", "-1", "x"])
def test_what_is_no_level_leaves_the_time(level: str) -> None:
    assert delays().waiting(message(DELAY=level, TIMER_DELAY_SEC="10")).topic == "rmq_sys_wheel_timer"


def test_one_without_either_stays_as_it_is() -> None:
    plain = message(TAGS="A")
    assert delays().waiting(plain) is plain


def test_the_longest_wait_is_the_settings() -> None:
    with pytest.raises(MessageIllegal, match="5 s"):
        delays(timer_max_delay_sec=5).waiting(message(TIMER_DELAY_SEC="6"))


@pytest.mark.parametrize("delay", ["", "0", "-1", "x"])
def test_one_without_a_level_stays_as_it_is(delay: str) -> None:
    plain = message(DELAY=delay)
    assert delayed(plain, LEVELS) is plain


@pytest.mark.parametrize(
    ("delay", "level"), [("1", 1), ("3", 3), ("99", 3), ("0" * 30 + "2", 2), ("\u0663", 3)]
)
def test_one_with_a_delay_waits_in_its_levels_queue_and_comes_out_for_its_own(delay: str, level: int) -> None:
    waiting = delayed(message(DELAY=delay, TAGS="A"), LEVELS)
    assert (waiting.topic, waiting.queue_id) == ("SCHEDULE_TOPIC_XXXX", level - 1)
    named = properties.decode(waiting.properties)
    assert named == {"DELAY": str(level), "TAGS": "A", "REAL_TOPIC": "Orders", "REAL_QID": "3"}
    assert due(stored(waiting)) == waiting._replace(topic="Orders", queue_id=3)


def test_properties_that_a_level_makes_too_long_are_refused() -> None:
    with pytest.raises(MessageIllegal, match="32783 bytes, the limit is 32767"):
        delayed(message(DELAY="1", a="x" * 32_743), LEVELS)


def test_one_that_asks_for_no_time_stays_as_it_is() -> None:
    plain = message(TAGS="A")
    assert timed(plain, SETTINGS, NOW) is plain


def test_one_that_has_waited_already_does_not_wait_again() -> None:
    again = message(TIMER_DELAY_SEC="10", TIMER_OUT_MS="1")
    assert timed(again, SETTINGS, NOW) is again


@pytest.mark.parametrize(
    ("name", "value", "out_ms"),
    [
        ("TIMER_DELAY_SEC", "10", 1_700_000_010_000),
        ("TIMER_DELAY_MS", "10000", 1_700_000_010_000),
        ("TIMER_DELAY_MS", "1", 1_700_000_000_000),
        ("TIMER_DELIVER_MS", "1700000010001", 1_700_000_010_000),
        ("TIMER_DELIVER_MS", "1700000010000", 1_700_000_009_000),
        ("TIMER_DELIVER_MS", "+1700000010000", 1_700_000_009_000),
    ],
)
def test_its_time_is_rounded_down_as_rocketmq_rounds_it(name: str, value: str, out_ms: int) -> None:
    waiting = timed(message(**{name: value}), SETTINGS, NOW)
    assert (waiting.topic, waiting.queue_id) == ("rmq_sys_wheel_timer", 0)
    assert properties.decode(waiting.properties) == {
        name: value,
        "TIMER_OUT_MS": str(out_ms),
        "REAL_TOPIC": "Orders",
        "REAL_QID": "3",
    }


def test_of_two_asks_rocketmqs_first_counts() -> None:
    waiting = timed(message(TIMER_DELIVER_MS=str(NOW + 1), TIMER_DELAY_SEC="20"), SETTINGS, NOW)
    assert properties.decode(waiting.properties)["TIMER_OUT_MS"] == "1700000020000"


@pytest.mark.parametrize(
    ("name", "value"),
    [("TIMER_DELIVER_MS", str(NOW)), ("TIMER_DELIVER_MS", "-1"), ("TIMER_DELAY_SEC", "0")],
)
def test_one_whose_time_has_passed_does_not_wait(name: str, value: str) -> None:
    due = message(**{name: value})
    assert timed(due, SETTINGS, NOW) is due


@pytest.mark.parametrize("value", ["x", "1.5", "9" * 20, "1_0", " 1"])
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(MessageIllegal, match=r"property TIMER_DELAY_MS = .*: give a whole number"):
        timed(message(TIMER_DELAY_MS=value), SETTINGS, NOW)


def test_a_time_too_far_off_is_refused_with_the_limit() -> None:
    assert timed(message(TIMER_DELAY_SEC="60"), SETTINGS, NOW).topic == "rmq_sys_wheel_timer"
    with pytest.raises(MessageIllegal, match=r"TIMER_DELAY_SEC = 61: .* 60 s \(timerMaxDelaySec\)"):
        timed(message(TIMER_DELAY_SEC="61"), SETTINGS, NOW)
    with pytest.raises(MessageIllegal, match="timerMaxDelaySec"):
        timed(message(TIMER_DELIVER_MS=str(2**63 - 1)), SETTINGS, NOW)


def test_a_broker_without_a_timer_says_so() -> None:
    with pytest.raises(Refused, match="timerWheelEnable"):
        timed(message(TIMER_DELAY_SEC="1"), StoreSettings(timer_wheel_enable=False), NOW)


def test_properties_without_room_for_what_is_added_are_refused() -> None:
    with pytest.raises(MessageIllegal, match="of a timed message they may have 32667"):
        timed(message(TIMER_DELAY_SEC="1", a="x" * 32_600), SETTINGS, NOW)
    widest = timed(message(TIMER_DELAY_SEC="1", a="x" * 32_590), SETTINGS, NOW)
    assert len(widest.properties) == 32_667
    for magic in (DEFAULT, DEFAULT | ROLL):
        came = timer_due(stored(widest), unit(magic), NOW + 9)
        assert came is not None and b"TIMER_DEQUEUE_MS" in came.properties


def test_the_timers_entry_has_its_time_and_topic() -> None:
    waiting = stored(timed(message(TIMER_DELAY_SEC="10"), SETTINGS, NOW))
    entry = timer_entry(encode(waiting))
    assert (entry.time, entry.physical_offset, entry.topic, entry.is_delete) == (
        1_700_000_010_000,
        4_000,
        "Orders",
        False,
    )
    assert timer_entry(encode(stored(message()))).time == 0
    recalling = stored(message(TIMER_OUT_MS="soon", TIMER_DEL_UNIQKEY="T+1"))
    assert timer_entry(encode(recalling)).is_delete


def test_what_comes_out_has_its_topic_queue_and_properties() -> None:
    waiting = stored(timed(message(TIMER_DELAY_SEC="10", TAGS="A"), SETTINGS, NOW))
    came = timer_due(waiting, unit(), NOW + 10_000)
    assert came is not None
    assert (came.topic, came.queue_id, came.tags, came.body) == ("Orders", 3, "A", waiting.body)
    named = properties.decode(came.properties)
    assert (named["TIMER_ENQUEUE_MS"], named["TIMER_DEQUEUE_MS"]) == (str(NOW), str(NOW + 10_000))
    assert "TIMER_ROLL_TIMES" not in named


def test_what_has_to_wait_on_goes_back_and_counts_how_often() -> None:
    waiting = stored(timed(message(TIMER_DELAY_SEC="10"), SETTINGS, NOW))
    for times in ("1", "2", "3"):
        back = timer_due(waiting, unit(DEFAULT | ROLL), NOW)
        assert back is not None and back.topic == "rmq_sys_wheel_timer"
        named = properties.decode(back.properties)
        assert (named["TIMER_ROLL_TIMES"], named["TIMER_OUT_MS"]) == (times, "1700000010000")
        waiting = stored(back)


def test_one_that_does_not_name_its_topic_is_not_delivered() -> None:
    assert timer_due(stored(message()), unit(), NOW) is None
    with pytest.raises(MessageIllegal, match="REAL_QID = 'x' is no queue"):
        timer_due(stored(message(REAL_TOPIC="T", REAL_QID="x")), unit(), NOW)


def test_one_without_room_comes_without_the_times(caplog: pytest.LogCaptureFixture) -> None:
    full = message(TIMER_OUT_MS="1", REAL_TOPIC="T", REAL_QID="0", a="x" * 32_720)
    with caplog.at_level(logging.WARNING):
        came = timer_due(stored(full), unit(), NOW)
    assert came is not None and came.properties == full.properties


def test_one_is_named_by_its_unique_key_or_by_its_topic_and_that() -> None:
    waiting = stored(message(REAL_TOPIC="T", UNIQ_KEY="0A"))
    assert recall_name(waiting) == "T+0A"
    assert recall_name(stored(message(REAL_TOPIC="T"))) is None
    assert "T+0A" in recalled_by(stored(message(TIMER_DEL_UNIQKEY="T+0A", REAL_TOPIC="T")))
    assert "T+0A" not in recalled_by(stored(message(TIMER_DEL_UNIQKEY="T+0A", REAL_TOPIC="U")))
    assert "T+0A" in recalled_by(stored(message(TIMER_DEL_UNIQKEY="0A", REAL_TOPIC="T")))
    assert "T+0A" not in recalled_by(stored(message(TIMER_DEL_UNIQKEY="0A", REAL_TOPIC="U")))
    assert recalled_by(waiting) == frozenset()


@pytest.mark.parametrize(("with_topic", "name"), [(False, "0A"), (True, "T+0A")])
def test_the_broker_names_what_it_recalls_as_its_setting_says(*, with_topic: bool, name: str) -> None:
    settings = StoreSettings(append_topic_for_timer_delete_key=with_topic)
    assert recall_property("T", "0A", settings) == name
    taking = message(TIMER_DEL_UNIQKEY=name, REAL_TOPIC="T")
    assert recall_name(stored(message(REAL_TOPIC="T", UNIQ_KEY="0A"))) in recalled_by(stored(taking))


def test_a_recall_must_not_be_due() -> None:
    with pytest.raises(MessageIllegal, match="the message to be recalled is due by now"):
        timed(message(TIMER_DELIVER_MS="1", TIMER_DEL_UNIQKEY="T+0A"), SETTINGS, NOW)
