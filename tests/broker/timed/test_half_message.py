"""The forms of a message in a transaction."""

import pytest

from cometmq.broker.timed import half_message
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.record import Record, decode
from cometmq.store.append import NewMessage

HOST = bytes(8)
NAMED = {"PGROUP": "pg", "TRAN_MSG": "true", "UNIQ_KEY": "u1", "TAGS": "A", "own": "x"}
SENT = NewMessage(
    "Orders", 3, b"paid", properties.encode(NAMED), 1_000, b"\x7f\0\0\1\0\0\0\x50", HOST, "A", 7, 4, 2
)


def waiting(**changes: str) -> Record:
    half = half_message.half(SENT)
    named = properties.decode(half.properties) | changes
    return Record(
        half.topic, half.body, properties.encode(named), half.queue_id, 12, 3_400, half.flag, half.sys_flag,
        half.born_time, half.born_host, 2_000, half.store_host, half.reconsume_times,
    )  # fmt: skip


def test_a_half_message_says_for_which_queue_it_is_and_has_no_transaction_bits() -> None:
    half = half_message.half(SENT)
    assert (half.topic, half.queue_id, half.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0)
    added = {"__transactionId__": "u1", "REAL_TOPIC": "Orders", "REAL_QID": "3"}
    assert properties.decode(half.properties) == NAMED | added
    assert half[2:3] + half[4:9] + half[10:] == SENT[2:3] + SENT[4:9] + SENT[10:]


def test_who_sends_in_no_group_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="without property PGROUP"):
        half_message.half(SENT._replace(properties=properties.encode(NAMED | {"PGROUP": ""})))


def test_the_whole_message_is_as_it_was_sent_committed_and_says_where_its_half_is() -> None:
    whole = half_message.committed(waiting())
    named = properties.encode(NAMED | {"__transactionId__": "u1"})
    assert whole == SENT._replace(properties=named, sys_flag=8, prepared_transaction_offset=3_400)


@pytest.mark.parametrize("queue_id", ["", "-1", "x"])
def test_a_half_message_that_says_not_where_to_is_told(queue_id: str) -> None:
    with pytest.raises(MessageIllegal, match="at 3400 of the CommitLog does not say for which queue"):
        half_message.committed(waiting(REAL_QID=queue_id))


def test_what_is_put_back_counts_and_is_otherwise_the_same() -> None:
    once = half_message.put_back(waiting(), is_asked=True)
    again = half_message.put_back(waiting(TRANSACTION_CHECK_TIMES="4"), is_asked=True)
    named = properties.decode(waiting().properties)
    assert properties.decode(once.properties) == named | {"TRANSACTION_CHECK_TIMES": "1"}
    assert properties.decode(again.properties) == named | {"TRANSACTION_CHECK_TIMES": "5"}
    assert once._replace(properties=b"") == half_message.half(SENT)._replace(properties=b"")


def test_what_wants_to_be_asked_for_later_says_where_it_was_first() -> None:
    first = half_message.put_back(waiting(), is_asked=False)
    second = half_message.put_back(waiting(TRAN_PREPARED_QUEUE_OFFSET="12"), is_asked=False)
    for back in (first, second):
        named = properties.decode(back.properties)
        assert named["TRAN_PREPARED_QUEUE_OFFSET"] == "12"
        assert "TRANSACTION_CHECK_TIMES" not in named, "only questions count"


def test_a_producer_is_shown_its_message_with_the_place_of_the_one_put_back() -> None:
    back = half_message.put_back(waiting(), is_asked=True)
    shown = decode(half_message.check_record(back, waiting(), 9_000, 13))
    assert (shown.topic, shown.queue_id, shown.body, shown.properties) == (
        "Orders", 3, b"paid", back.properties,
    )  # fmt: skip
    assert (shown.physical_offset, shown.queue_offset) == (9_000, 13)


def test_what_is_given_up_is_the_same_in_another_topic() -> None:
    given_up = half_message.given_up(waiting())
    assert given_up == half_message.half(SENT)._replace(topic="TRANS_CHECK_MAX_TIME_TOPIC")


def test_op_messages_name_what_is_ended_up_to_a_size() -> None:
    ops = half_message.op_messages([5, 16, 127, 8], 1_000, HOST, size_max=5)
    assert [(op.body, ended) for op, ended in ops] == [(b"5,16,", [5, 16]), (b"127,8,", [127, 8])]
    (op, _), _ = ops
    assert (op.topic, op.queue_id, op.tags, op.properties) == (
        "RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, "d", b"WAIT\x01true\x02TAGS\x01d\x02",
    )  # fmt: skip
    assert half_message.op_messages([], 1_000, HOST, size_max=5) == []


@pytest.mark.parametrize(
    ("body", "tags", "expected"),
    [(b"5,6,", "d", [5, 6]), (b"5", "d", [5]), (b"", "d", []), (b"5,x,-1,7", "d", [5, 7]), (b"5,", "e", [])],
)
def test_an_op_message_of_any_broker_is_read(body: bytes, tags: str, expected: list[int]) -> None:
    op = waiting()._replace(body=body, properties=properties.encode({"TAGS": tags}))
    assert half_message.ended_by(op) == expected


@pytest.mark.parametrize(
    ("changes", "asks", "immunity_ms"),
    [
        ({}, 0, None),
        ({"TRANSACTION_CHECK_TIMES": "3"}, 3, None),
        ({"TRANSACTION_CHECK_TIMES": "x"}, 0, None),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "9"}, 0, 9_000),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"}, 0, 0),
    ],
)
def test_what_a_round_must_know_is_in_the_properties(
    changes: dict[str, str], asks: int, immunity_ms: int | None
) -> None:
    assert half_message.facts(waiting(**changes)) == (1_000, 2_000, asks, immunity_ms)
