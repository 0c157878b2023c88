"""What a server answered, if it is what was asked for."""

from enum import Enum

from cometmq.errors import RemoteError, WrongServer
from cometmq.net.client import Connections
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command


class ServerKind(Enum):
    """A kind of server, and a request that only this kind knows."""

    NAME_SERVER = "name server", RequestCode.GET_NAMESRV_CONFIG
    BROKER = "broker", RequestCode.GET_BROKER_RUNTIME_INFO


def successful(answer: Command) -> Command:
    """Give an answer of success. Raises RemoteError for any other."""
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
    return answer


async def check_kind(connections: Connections, address: str, answer: Command, wanted: ServerKind) -> None:
    """Check that a server which does not know a request is not one of the other kind.

    Raises:
        WrongServer: it is a broker where a name server was wanted, or the reverse.
        NetworkError: the connection was lost.
    """
    if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return
    other = ServerKind.BROKER if wanted is ServerKind.NAME_SERVER else ServerKind.NAME_SERVER
    other_name, request = other.value
    if (await connections.request(address, Command(request))).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        wanted_name, _ = wanted.value
        text = f"{address} is a {other_name}, not a {wanted_name}: give the address of a {wanted_name}"
        raise WrongServer(answer.code, text)
