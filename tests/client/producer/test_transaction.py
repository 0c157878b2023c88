"""What makes a half message of a message, and what ends it."""

from typing import Any

import pytest

from cometmq.client import SendResult, SendStatus, TransactionResult, TransactionState
from cometmq.client.producer import outgoing
from cometmq.client.producer.transaction import (
    check_in_transaction,
    checked_state,
    end_header,
    end_request,
    half_message,
)
from cometmq.errors import FormatError, MessageIllegal, SettingsError
from cometmq.format import properties, sys_flag
from cometmq.message import Message, MessageQueue
from cometmq.wire.codes import RequestCode

SENT = SendResult(SendStatus.SEND_OK, "ID", "0" * 24 + "000000FF", MessageQueue("Orders", "a", 1), 7)


def ready(**fields: Any) -> outgoing.Outgoing:
    return outgoing.single(Message("Orders", bytes(5_000), **fields), "ID")


def test_the_states_are_those_of_the_wire() -> None:
    assert {state.name: state.value for state in TransactionState} == {
        "COMMIT": 8,
        "ROLLBACK": 12,
        "UNKNOWN": 0,
    }


def test_a_half_message_is_the_message_with_what_marks_it() -> None:
    whole = ready(tags="paid", keys=("42",), sharding_key="ann")
    made = half_message(whole, "shop")
    marks = {"TRAN_MSG": "true", "PGROUP": "shop"}
    assert properties.decode(made.properties.encode()) == (
        properties.decode(whole.properties.encode()) | marks
    )
    assert made.sys_flag == whole.sys_flag | sys_flag.TRANSACTION_PREPARED
    assert sys_flag.is_compressed(made.sys_flag)
    assert (made.body, made.sharding_key, made.message_ids) == (whole.body, "ann", ("ID",))


def test_properties_may_not_get_too_long_by_the_marks() -> None:
    room = properties.MAX_LENGTH - len(ready(properties={"a": "a"}).properties)
    fits = ready(properties={"a": "a" * (1 + room)})
    with pytest.raises(MessageIllegal, match="the limit is 32767"):
        half_message(fits, "shop")


def test_delays_and_idempotence_keys_are_refused() -> None:
    check_in_transaction(Message("Orders", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}))
    with pytest.raises(MessageIllegal, match="delay level 1 in a transaction"):
        check_in_transaction(Message("Orders", b"x", delay_level=1))
    with pytest.raises(MessageIllegal, match="idempotence key in a transaction"):
        check_in_transaction(Message("Orders", b"x", properties={"IDEMPOTENCE_KEY": "k"}))


def test_only_a_state_is_a_state() -> None:
    assert checked_state(TransactionState.UNKNOWN) is TransactionState.UNKNOWN
    for other in (None, 8, True, "COMMIT"):
        with pytest.raises(SettingsError, match="return a TransactionState"):
            checked_state(other)


def test_the_end_says_where_the_half_message_is() -> None:
    end = end_header("shop", SENT, TransactionState.ROLLBACK)
    assert (end.half_offset, end.physical_offset, end.decision) == (7, 255, 12)
    assert (end.message_id, end.transaction_id, end.from_check) == ("ID", "ID", False)
    with pytest.raises(FormatError):
        end_header("shop", SendResult(SendStatus.SEND_OK, "ID", "", SENT.queue, 0), TransactionState.COMMIT)


def test_the_request_says_why_a_state_is_not_known() -> None:
    end = end_header("shop", SENT, TransactionState.UNKNOWN)
    request = end_request(end, ValueError("no"))
    assert (request.code, request.remark) == (RequestCode.END_TRANSACTION, "ValueError('no')")
    assert request.ext_fields["tranStateTableOffset"] == "7"
    assert end_request(end, None).remark is None
    assert len(end_request(end, ValueError("x" * 1_000)).remark or "") == 500


def test_a_result_is_a_value() -> None:
    result = TransactionResult(SENT, TransactionState.COMMIT)
    assert result == TransactionResult(SENT, TransactionState.COMMIT)
    with pytest.raises(AttributeError):
        result.state = TransactionState.ROLLBACK  # type: ignore[misc] # that is the point
