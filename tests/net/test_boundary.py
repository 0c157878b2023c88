import logging

import pytest

from cometmq.errors import IllegalName, ProtocolError, StoreDamaged
from cometmq.message import Buffer
from cometmq.net.boundary import attempt
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, RESPONSE_FLAG, Command, SerializeType


class Peer:
    def __init__(self) -> None:
        self.sent: list[Command] = []

    def __str__(self) -> str:
        return "192.0.2.1:5"

    def send(self, data: Buffer | Command) -> None:
        assert isinstance(data, Command)
        self.sent.append(data)


def fail(error: BaseException) -> None:
    raise error


def test_nothing_is_added_when_all_goes_well() -> None:
    peer = Peer()
    attempt(peer, [Command(105)], peer.send, Command(0))
    assert peer.sent == [Command(0)]


def test_an_unforeseen_failure_is_answered_without_its_text_and_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer()
    request = Command(105, opaque=7, serialize_type=SerializeType.ROCKETMQ)
    with caplog.at_level(logging.ERROR):
        attempt(peer, [request], fail, KeyError("a secret"))
    (answer,) = peer.sent
    assert (answer.code, answer.opaque, answer.serialize_type) == (1, 7, SerializeType.ROCKETMQ)
    assert answer.is_response
    assert answer.remark == "internal error (KeyError): the server's log has the details"
    (record,) = caplog.records
    assert "192.0.2.1:5" in record.getMessage() and "GET_ROUTEINFO_BY_TOPIC #7" in record.getMessage()
    assert record.exc_info is not None


def test_our_own_error_does_not_tell_the_peer_our_file_names() -> None:
    peer = Peer()
    attempt(peer, [Command(11)], fail, StoreDamaged("commitlog/00000000000000000000 is short"))
    assert peer.sent[0].remark == "internal error (StoreDamaged): the server's log has the details"


@pytest.mark.parametrize("error", [ProtocolError("field topic is missing"), IllegalName("topic '..'")])
def test_the_peer_is_told_what_it_did_wrong(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer()
    with caplog.at_level(logging.INFO):
        attempt(peer, [Command(105)], fail, error)
    assert (peer.sent[0].code, peer.sent[0].remark) == (ResponseCode.SYSTEM_ERROR, str(error))
    assert all(record.exc_info is None for record in caplog.records)


def test_only_those_that_want_an_answer_get_one() -> None:
    peer = Peer()
    commands = [Command(15, 1, ONEWAY_FLAG), Command(0, 2, RESPONSE_FLAG), Command(11, 3), Command(11, 4)]
    attempt(peer, commands, fail, ValueError())
    assert [answer.opaque for answer in peer.sent] == [3, 4]


def test_a_programs_end_is_not_stopped() -> None:
    with pytest.raises(KeyboardInterrupt):
        attempt(Peer(), [], fail, KeyboardInterrupt())
