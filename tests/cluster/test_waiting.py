from typing import Any

from tests.kit.messages import new_stored

from cometmq.cluster.waiting import (
    TimerTopic,
    WaitingKind,
    WaitingLine,
    WaitingMessages,
    delayed_message,
    half_message,
    waiting_lines,
)
from cometmq.format.delay_level import DelayLevels
from cometmq.format.pop.check_point import CheckPoint, PopAck, encode_ack
from cometmq.message import StoredMessage

NOW = 1_795_602_262_251
HOUR_MS = 3_600_000
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
POINT = CheckPoint("T", "g", 3, 40, NOW - 1_000, 60_000, (0, 1, 5), "broker-a")


def message(named: dict[str, str], body: bytes = b"", **changes: Any) -> StoredMessage:
    """Build a record of a broker's own topic."""
    values: dict[str, Any] = {
        "topic": "X",
        "message_id": named.get("UNIQ_KEY", "0"),
        "tags": named.get("TAGS"),
        "keys": (),
        "properties": named,
        "born_time": NOW,
        "store_time": NOW,
    }
    return new_stored(body, **values | changes)


def timed(topic: str, due_ms: int, key: str, **named: str) -> StoredMessage:
    return message({"REAL_TOPIC": topic, "TIMER_OUT_MS": str(due_ms), "UNIQ_KEY": key} | named)


def of_pop(what: CheckPoint | PopAck) -> StoredMessage:
    if isinstance(what, CheckPoint):
        tag, body = "ck", what.encode()
    else:
        tag, _, body = encode_ack(what.offsets, what.key.ack_members())
    return message({"REAL_TOPIC": REVIVE, "TAGS": tag}, body)


def read(*messages: StoredMessage) -> list[WaitingMessages]:
    topic = TimerTopic(NOW)
    for one in messages:
        topic.add(one)
    return topic.waiting()


def acknowledged(point: CheckPoint, *offsets: int) -> PopAck:
    return PopAck(*point.key, offsets)


def test_a_delayed_message_is_due_by_its_level() -> None:
    levels = DelayLevels.parse("1s 1h")
    second = message({"REAL_TOPIC": "T"}, queue_id=1)
    assert delayed_message(second, levels) == (WaitingKind.DELAYED, "T", "", NOW + HOUR_MS, 1)
    gone = message({"REAL_TOPIC": "T"}, queue_id=2)
    assert delayed_message(gone, levels).due_ms == NOW


def test_a_half_message_is_due_when_its_producer_may_be_asked() -> None:
    named = {"REAL_TOPIC": "T", "PGROUP": "shop"}
    assert half_message(message(named), 6_000) == (WaitingKind.HALF, "T", "shop", NOW + 6_000, 1)
    own = named | {"CHECK_IMMUNITY_TIME_IN_SECONDS": "30"}
    assert half_message(message(own), 6_000).due_ms == NOW + 30_000


def test_timed_messages_wait_until_their_time() -> None:
    later = NOW + HOUR_MS
    assert read(timed("T", later, "a"), timed("T", NOW, "b")) == [(WaitingKind.TIMED, "T", "", later, 1)]


def test_a_message_that_rolled_counts_once_and_one_that_was_recalled_not_at_all() -> None:
    later = NOW + HOUR_MS
    first, rolled = timed("T", later, "a"), timed("T", later, "a", TIMER_ROLL_TIMES="1")
    assert len(read(first, rolled, timed("U", later, "a"))) == 2, "another topic may have the same key"
    for name in ("a", "T+a"):
        recall = timed("T", later, "r", TIMER_DEL_UNIQKEY=name)
        assert read(first, rolled, recall) == []


def test_popped_messages_wait_unless_they_are_acknowledged() -> None:
    due = POINT.revive_time_ms
    assert read(of_pop(POINT)) == [(WaitingKind.POPPED, "T", "g", due, 3)]
    assert read(of_pop(POINT), of_pop(acknowledged(POINT, 41))) == [(WaitingKind.POPPED, "T", "g", due, 2)]
    assert read(of_pop(POINT), of_pop(acknowledged(POINT, 40, 41, 45))) == []
    other = POINT._replace(pop_time_ms=NOW)
    assert read(of_pop(POINT), of_pop(acknowledged(other, 41)))[0].message_count == 3
    assert read(of_pop(POINT._replace(invisible_ms=1_000))) == [], "they have come back"


def test_popped_messages_of_a_retry_topic_count_for_the_topic_and_rubbish_does_not_count() -> None:
    (held,) = read(of_pop(POINT._replace(topic="%RETRY%g_T")))
    assert (held.topic, held.message_count) == ("T", 3)
    assert read(message({"REAL_TOPIC": REVIVE, "TAGS": "ck"}, b"no check point")) == []


def test_lines_sum_up_by_kind_topic_and_group_in_spans_of_time() -> None:
    def due(after_ms: int, count: int = 1, kind: WaitingKind = WaitingKind.TIMED) -> WaitingMessages:
        return WaitingMessages(kind, "T", "", NOW + after_ms, count)

    spans = {"now": 0, "1m": 0, "10m": 0, "1h": 0, "1d": 0, "later": 0}
    day_ms = 24 * HOUR_MS
    found = waiting_lines(
        [
            due(day_ms + 1),
            due(-5),
            due(0, 2),
            due(60_000),
            due(60_001),
            due(day_ms),
            due(1, 1, WaitingKind.DELAYED),
        ],
        NOW,
    )
    assert found == [
        WaitingLine(WaitingKind.DELAYED, "T", "", 1, NOW + 1, NOW + 1, spans | {"1m": 1}),
        WaitingLine(
            *(WaitingKind.TIMED, "T", "", 7, NOW - 5, NOW + day_ms + 1),
            spans | {"now": 3, "1m": 1, "10m": 1, "1d": 1, "later": 1},
        ),
    ]


def test_a_number_that_java_cannot_read_counts_as_none() -> None:
    much = "9" * 5_000
    assert read(timed("T", NOW + HOUR_MS, "k", TIMER_OUT_MS=much)) == []
    half = message({"REAL_TOPIC": "T", "CHECK_IMMUNITY_TIME_IN_SECONDS": much})
    assert half_message(half, 6_000).due_ms == half.born_time + 6_000
