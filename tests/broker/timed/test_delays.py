"""Which of a message's delays counts."""

import pytest
from tests.store.conftest import new_message

from cometmq.broker.timed.delays import Delays
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.io.clock import ManualClock
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings


def message(**named: str) -> NewMessage:
    return new_message("Orders", 3)._replace(properties=properties.encode(named))


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


def test_the_limit_is_the_settings() -> None:
    with pytest.raises(MessageIllegal, match="5 s"):
        delays(timer_max_delay_sec=5).waiting(message(TIMER_DELAY_SEC="6"))
