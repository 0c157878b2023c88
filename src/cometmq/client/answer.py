"""Checks of a server's responses: success, the right kind of server, and that they can be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from cometmq.errors import (
    FormatError,
    NetworkError,
    RemoteError,
    SettingsError,
    UnreadableAnswer,
    WrongServer,
)
from cometmq.net.client import Connections
from cometmq.net.connection import REQUEST_TIMEOUT_MS
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command


class ServerKind(Enum):
    """A kind of server: its name, and a request that only this kind knows."""

    NAME_SERVER = "name server", RequestCode.GET_NAMESRV_CONFIG
    BROKER = "broker", RequestCode.GET_BROKER_RUNTIME_INFO


def successful(answer: Command) -> Command:
    """Return the response if its code is SUCCESS. Raises RemoteError for any other code."""
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
    return answer


async def ask_broker(
    connections: Connections, address: str, command: Command, timeout_ms: int = REQUEST_TIMEOUT_MS
) -> Command:
    """Send a request to a broker; return the response if it is a success.

    Raises:
        RemoteError: it refuses; WrongServer if it is a name server.
        NetworkError: it does not answer. What it has registered may be no address, too.
    """
    with registered(address):
        answer = await connections.request(address, command, timeout_ms)
    await check_kind(connections, address, answer, ServerKind.BROKER)
    return successful(answer)


@contextmanager
def registered(address: str) -> Iterator[None]:
    """Raise NetworkError while a broker is asked whose registered address is none: nobody answers there."""
    try:
        yield
    except SettingsError as error:
        raise NetworkError(f"no connection to {address}: {error}") from None


@contextmanager
def answers_of(address: str) -> Iterator[None]:
    """Raise UnreadableAnswer, which names the server, for a FormatError while its answers are read."""
    try:
        yield
    except FormatError as error:
        raise UnreadableAnswer(address, str(error)) from None


async def check_kind(connections: Connections, address: str, answer: Command, expected: ServerKind) -> None:
    """Check that a server which does not support a request is not of the other kind.

    Raises:
        WrongServer: it is a broker where a name server was expected, or the reverse.
        NetworkError: the connection was lost.
    """
    if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return
    other = ServerKind.BROKER if expected is ServerKind.NAME_SERVER else ServerKind.NAME_SERVER
    other_name, request = other.value
    if (await connections.request(address, Command(request))).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        name, _ = expected.value
        text = f"{address} is a {other_name}, not a {name}: give the address of a {name}"
        raise WrongServer(answer.code, text)
