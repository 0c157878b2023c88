"""Checks of a server's responses: success, and the right kind of server."""

from enum import Enum

from cometmq.errors import RemoteError, WrongServer
from cometmq.net.client import Connections
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
