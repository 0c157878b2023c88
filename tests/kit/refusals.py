"""Requests with fields of all kinds, what they are answered, and what the log has of them."""

from typing import Any, get_args

import msgspec
import pytest
from tests.adversity.conftest import LOGGED_MAX
from tests.broker.conftest import Client

from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import Header
from cometmq.wire.requests import REQUESTS


def assert_log_is_sound(caplog: pytest.LogCaptureFixture) -> None:
    """No failure of our own, and no text of a peer's that fills the log."""
    assert [record for record in caplog.records if record.exc_info] == []
    assert [record for record in caplog.records if len(record.message) > LOGGED_MAX] == []


TO_CLIENTS = (
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
)


def kinds(field_type: Any) -> set[type]:
    """Return the plain types that a header's field can hold."""
    if field_type in (int, str, bool):
        return {field_type}
    return {kind for part in get_args(field_type) for kind in kinds(part)}


def plain(header_type: type[Header]) -> dict[str, str]:
    """Return fields with which a request can be read."""
    values = {int: "0", bool: "false", str: "T"}
    return {
        field.encode_name: next(values[kind] for kind in (int, bool, str) if kind in kinds(field.type))
        for field in msgspec.structs.fields(header_type)
        if field.required
    }


async def answer(client: Client, code: int, ext_fields: dict[str, str], body: bytes = b"") -> Command:
    answer = await client.connection.request(Command(code, ext_fields=ext_fields, body=body))
    remark = answer.remark or ""
    assert answer.is_response and len(remark) < 1_000, (code, ext_fields)
    for word in ("Traceback", 'File "', "internal error", ".py"):
        assert word not in remark, (code, ext_fields, remark)
    return answer


CODES = [code for code in REQUESTS if code not in TO_CLIENTS]


def says(answer: Command, code: ResponseCode, *words: str) -> bool:
    """Return whether an answer has the code, and names all that it must."""
    assert answer.code == code, answer
    assert [word for word in words if word not in (answer.remark or "")] == [], answer
    return True
