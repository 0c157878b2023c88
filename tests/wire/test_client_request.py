"""Any request is encoded with its number, its flag and its signature."""

import pytest

from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.client_request import encode_request
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import ONEWAY_FLAG, Command, encode
from cometmq.wire.headers import PullHeader
from cometmq.wire.pull_request import PullRequest
from cometmq.wire.send_request import SendRequest

USER = Credentials('user "1"', "secret")
SEND = SendRequest("producers", "Orders", 3, 0, 1_000, 0, "", "broker-a", is_batch=False, body=b"body")
PULL = PullRequest(PullHeader("readers", "Orders", 3, 7, 32, 4, 0, 0))


@pytest.mark.parametrize("request_", [SEND, PULL])
def test_any_request_gets_its_number_and_its_flag(request_: SendRequest | PullRequest) -> None:
    command = Command(RequestCode.HEART_BEAT)
    numbered = Command(RequestCode.HEART_BEAT, opaque=7, flag=ONEWAY_FLAG)
    assert encode_request(command, 7, ONEWAY_FLAG) == encode(numbered)
    assert encode_request(request_, 7) == request_.encode(7)


@pytest.mark.parametrize("request_", [SEND, PULL])
def test_any_request_is_signed_where_there_are_credentials(request_: SendRequest | PullRequest) -> None:
    sent = Command(RequestCode.HEART_BEAT, ext_fields={"b": "2", "a": "1"}, body=b"body")
    signed = Command(
        RequestCode.HEART_BEAT,
        opaque=7,
        ext_fields=signed_fields(sent.ext_fields, b"body", sent.version, USER),
        body=b"body",
    )
    assert encode_request(sent, 7, 0, USER) == encode(signed)
    assert encode_request(sent, 7, 0, USER) == encode(signed)  # once more, as a retry does
    assert encode_request(request_, 7, 0, USER) == request_.encode(7, 0, USER)
