import pytest

from cometmq import errors
from cometmq.admin.doctor.findings import Level, fine, unreachable
from cometmq.wire.codes import ResponseCode


def test_what_is_fine_needs_no_remedy() -> None:
    assert fine("disk", "store", "44 % full") == (Level.OK, "disk", "store", "44 % full", "")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (errors.NetworkError("no connection"), "start it"),
        (errors.TLSError("no TLS"), "--tls-ca"),
        (errors.WrongProtocol("it speaks HTTP"), "another program"),
        (errors.WrongServer(3, "a broker"), "9876"),
        (errors.RemoteError(ResponseCode.NO_PERMISSION, "no"), "--credentials"),
        (errors.RemoteError(ResponseCode.SYSTEM_ERROR, "no"), "log"),
    ],
)
def test_the_remedy_is_that_of_what_a_server_answers(error: errors.CometMQError, remedy: str) -> None:
    found = unreachable("address", "broker-a", error, "start it")
    assert (found.level, found.text) == (Level.FAULT, str(error)) and remedy in found.remedy


def test_the_remedy_for_an_answer_that_cannot_be_read_is_that_of_its_error() -> None:
    found = unreachable(
        "address", "broker-a", errors.UnreadableAnswer("10.0.0.1:10911", "no JSON"), "start it"
    )
    assert found.text == "10.0.0.1:10911 answers what cannot be read: no JSON"
    assert found.remedy == "see which version runs there, and its log"
