"""How a message waits, and how it comes out again."""

import pytest
from tests.store.conftest import new_message

from cometmq.broker.timed.delayed import delayed, due
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.delay_level import DelayLevels
from cometmq.format.record import decode, encode_fields
from cometmq.store.append import NewMessage

LEVELS = DelayLevels.parse("1s 5s 10s")


def message(**named: str) -> NewMessage:
    return new_message("Orders", 3, tags="A")._replace(properties=properties.encode(named))


@pytest.mark.parametrize("delay", ["", "0", "-1", "x"])
def test_one_without_a_delay_stays_as_it_is(delay: str) -> None:
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
    stored = encode_fields(
        waiting.topic,
        waiting.body,
        waiting.properties,
        waiting.queue_id,
        0,
        0,
        waiting.flag,
        waiting.sys_flag,
        waiting.born_time,
        waiting.born_host,
        7,
        waiting.store_host,
        waiting.reconsume_times,
        0,
    )
    again = due(decode(stored))
    assert again == waiting._replace(topic="Orders", queue_id=3)


def test_properties_that_get_too_long_are_refused() -> None:
    with pytest.raises(MessageIllegal, match="32783 bytes, the limit is 32767"):
        delayed(message(DELAY="1", a="x" * 32_743), LEVELS)
