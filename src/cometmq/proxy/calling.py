"""Call rpcs with one answer of a server that listens at a unix socket."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import ProtocolError as H2ProtocolError

from cometmq.errors import NetworkError
from cometmq.proxy.transport import CLIENT_ID, METHODS, SERVICE, Call, ClientKey

TIMEOUT_S: Final = 10.0
"""How long an answer may take: the server may have to ask a broker first."""
USER: Final = "x-mq-user"
"""The header with the client's user. Only a server at a unix socket reads it."""


class RpcCaller:
    """Calls rpcs by one connection, which is made with the first call, and again after it was lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = Channel(path=str(path))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def call(self, name: str, request: Any, client: ClientKey) -> Any:
        """Call the rpc of this name for a client; return the answer. Raises NetworkError if there is none."""
        method = METHODS[name]
        try:
            async with self._channel.request(
                f"/{SERVICE}/{name}",
                Cardinality.UNARY_UNARY,
                GetMessageClass(method.input_type),
                GetMessageClass(method.output_type),
                timeout=TIMEOUT_S,
                metadata=_metadata_of(client),
            ) as stream:
                await stream.send_message(request, end=True)
                return await stream.recv_message()
        except (OSError, GRPCError, StreamTerminatedError, H2ProtocolError) as error:
            raise NetworkError(f"{self._path} does not answer {name}: {error!r}") from None


def call_for(call: Call) -> Call:
    """Return a call with the client for which another process has made it, by an ``RpcCaller``."""
    metadata = {**call.metadata, CLIENT_ID: unquote(call.client_id)}
    return replace(call, metadata=metadata, user=unquote(call.metadata.get(USER, "")))


def _metadata_of(client: ClientKey) -> dict[str, str]:
    """Return the headers that name a client, quoted as in URLs: not all characters can be in a header."""
    named = {CLIENT_ID: client.client_id, USER: client.user}
    return {name: quote(value) for name, value in named.items() if value}
