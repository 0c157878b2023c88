"""What the doctor finds: one value for each thing that was examined, sound or not."""

from enum import StrEnum
from typing import NamedTuple

from cometmq.errors import CometMQError, RemoteError, TLSError, UnreadableAnswer, WrongProtocol, WrongServer
from cometmq.wire.codes import ResponseCode


class Level(StrEnum):
    """How bad a finding is: fine; something to know of; something that clients or operators suffer from."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


class Diagnosis(NamedTuple):
    """One thing that was examined.

    Attributes:
        check: the kind of examination: ``name server``, ``address``, ``clock`` …
        subject: what was examined: an address, a broker, a topic, a setting or a path.
        text: what was found.
        remedy: what to do; empty if the finding is OK.
    """

    level: Level
    check: str
    subject: str
    text: str
    remedy: str = ""


def fine(check: str, subject: str, text: str) -> Diagnosis:
    """Build the finding that something is as it should be."""
    return Diagnosis(Level.OK, check, subject, text)


def warning(check: str, subject: str, text: str, remedy: str) -> Diagnosis:
    """Build the finding of something to know of."""
    return Diagnosis(Level.WARNING, check, subject, text, remedy)


def fault(check: str, subject: str, text: str, remedy: str) -> Diagnosis:
    """Build the finding of something that is wrong."""
    return Diagnosis(Level.FAULT, check, subject, text, remedy)


def unreachable(check: str, subject: str, error: CometMQError, remedy: str) -> Diagnosis:
    """Build the finding of a server that does not answer as it should.

    Args:
        remedy: what to do if there is no connection. For TLS, another protocol, another kind of server and
            missing rights there are others.
    """
    text = str(error).removeprefix("no name server answers: ")  # it was the only one that was asked
    if isinstance(error, UnreadableAnswer):
        text, _, remedy = text.rpartition("; ")
    return fault(check, subject, text, _remedy(error) or remedy)


def counted(count: int, what: str) -> str:
    """Return a number of things as words: ``1 fault``, ``2 faults``."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _remedy(error: CometMQError) -> str:
    """Return what to do about a server that is there, and answers otherwise than expected; empty if not."""
    if isinstance(error, TLSError):
        return "give the options of TLS that fit the server: --tls, --tls-ca, --tls-cert, --tls-any-host"
    if isinstance(error, WrongServer):
        return "give the address of a name server with --namesrv: 9876 is their usual port, 10911 a broker's"
    if isinstance(error, WrongProtocol):
        return "another program listens there: give the right port, or stop that program"
    if isinstance(error, RemoteError) and error.code == ResponseCode.NO_PERMISSION:
        return "give the credentials of an administrator: --credentials FILE"
    if isinstance(error, RemoteError):
        return "read the server's log, which has the reason in full"
    return ""
