"""Call rpcs with one answer of a server that listens at a unix socket."""

from pathlib import Path
from typing import Any, Final

from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import ProtocolError as H2ProtocolError

from cometmq.errors import NetworkError
from cometmq.proxy.transport import METHODS, SERVICE

TIMEOUT_S: Final = 10.0
"""How long an answer may take: the server may have to ask a broker first."""


class RpcCaller:
    """Calls rpcs by one connection, which is made with the first call, and again after it was lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = Channel(path=str(path))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def call(self, name: str, request: Any, client_id: str) -> Any:
        """Call the rpc of this name for a client; return the answer. Raises NetworkError if there is none."""
        method = METHODS[name]
        try:
            async with self._channel.request(
                f"/{SERVICE}/{name}",
                Cardinality.UNARY_UNARY,
                GetMessageClass(method.input_type),
                GetMessageClass(method.output_type),
                timeout=TIMEOUT_S,
                metadata={"x-mq-client-id": client_id},
            ) as stream:
                await stream.send_message(request, end=True)
                return await stream.recv_message()
        except (OSError, GRPCError, StreamTerminatedError, H2ProtocolError) as error:
            raise NetworkError(f"{self._path} does not answer {name}: {error!r}") from None
