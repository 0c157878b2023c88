"""The gRPC transport behind a small interface of its own, so that another library can take grpclib's place.

An rpc is a function of one request, or of the stream of requests, and of its ``Call``. It returns the answer,
or iterates over the answers. Which of these, the ``.proto`` file says.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.message_factory import GetMessageClass
from grpclib.config import Configuration
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream

from cometmq.net.address import address_text
from cometmq.proxy import messaging_pb2 as pb

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
"""The name of the rpcs' service on the wire; that in our own ``.proto`` file differs."""
METHODS: Final[Mapping[str, MethodDescriptor]] = {
    method.name: method for method in pb.DESCRIPTOR.services_by_name["MessagingService"].methods
}
"""The rpcs of the ``.proto`` file by their names."""
WINDOW_BYTES: Final = 4 << 20
"""How much of a call's request, and of all of a connection, may be under way unread."""


class GrpcStatus(Enum):
    """The failures that an rpc reports by gRPC itself; all others are answers with a code of their own."""

    INVALID_ARGUMENT = Status.INVALID_ARGUMENT
    INTERNAL = Status.INTERNAL


class CallRefused(Exception):
    """An rpc ends with a status of gRPC instead of an answer."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Call:
    """What is known of a call beside its request.

    Attributes:
        metadata: the first value of each of the client's headers, by its name in small letters.
        peer: ``ip:port`` of the client.
        deadline: when the client stops waiting, by the event loop's clock; None if it waits for ever.
    """

    metadata: Mapping[str, str]
    peer: str
    deadline: float | None = None

    @property
    def client_id(self) -> str:
        """The client's id; empty if it has sent none."""
        return self.metadata.get("x-mq-client-id", "").strip()

    def left_ms(self) -> int | None:
        """Return how long the client still waits; None for ever."""
        if self.deadline is None:
            return None
        return max(0, int((self.deadline - asyncio.get_running_loop().time()) * 1000))


@dataclass(frozen=True)
class Exchange:
    """A call that streams both ways: iterate over the requests, and send answers at any time."""

    requests: AsyncIterator[Any]
    _send: Callable[[Any], Any]
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, answer: ProtobufMessage) -> None:
        """Send an answer; waits while the client reads too slowly."""
        async with self._sending:  # parts of two long answers must not mix
            await self._send(answer)


Rpc = Callable[[Any, Call], Any]
"""An async function of the request that returns the answer; an async generator of the answers; or an async
function of an ``Exchange``."""


class GrpcServer:
    """Serves rpcs on one port; those that are missing are answered with UNIMPLEMENTED.

    Args:
        rpcs: by their names in the ``.proto`` file.
    """

    def __init__(self, rpcs: Mapping[str, Rpc]) -> None:
        self._rpcs = rpcs
        self._server: Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; a port of 0 is any free one. Raises OSError if it cannot."""
        config = Configuration(
            http2_connection_window_size=WINDOW_BYTES, http2_stream_window_size=WINDOW_BYTES
        )
        self._server = Server([self], codec=ProtoCodec(), config=config)
        await self._server.start(host, port)
        (socket, *_) = self._server._server.sockets  # type: ignore[union-attr]  # noqa: SLF001 it has no other way
        self.port = socket.getsockname()[1]

    async def stop(self) -> None:
        """Cancel the calls under way, and close all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()

    def __mapping__(self) -> dict[str, Handler]:
        """Return the handlers as grpclib wants them."""
        return {f"/{SERVICE}/{name}": self._handler(method) for name, method in METHODS.items()}

    def _handler(self, method: MethodDescriptor) -> Handler:
        cardinality = _CARDINALITY[method.client_streaming, method.server_streaming]
        serve, rpc = _SERVE[cardinality], self._rpcs.get(method.name)

        async def handle(stream: "Stream[Any, Any]") -> None:
            if rpc is None:  # grpclib's own refusal lacks a header that clients require
                raise GRPCError(Status.UNIMPLEMENTED, f"{method.name} is not served")
            try:
                await serve(stream, rpc)
            except CallRefused as refused:
                raise GRPCError(refused.status.value, str(refused)) from None

        return Handler(
            handle, cardinality, GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        )


async def _serve_unary(stream: "Stream[Any, Any]", rpc: Rpc) -> None:
    request = await stream.recv_message()
    await stream.send_message(await rpc(request, _call_of(stream)))


async def _serve_stream(stream: "Stream[Any, Any]", rpc: Rpc) -> None:
    request = await stream.recv_message()
    answers = rpc(request, _call_of(stream))
    try:
        async for answer in answers:
            await stream.send_message(answer)
    finally:
        await answers.aclose()


async def _serve_exchange(stream: "Stream[Any, Any]", rpc: Rpc) -> None:
    await rpc(Exchange(aiter(stream), stream.send_message), _call_of(stream))


_CARDINALITY: Final = {(one.client_streaming, one.server_streaming): one for one in Cardinality}
_SERVE: Final = {
    Cardinality.UNARY_UNARY: _serve_unary,
    Cardinality.UNARY_STREAM: _serve_stream,
    Cardinality.STREAM_STREAM: _serve_exchange,
}


def _call_of(stream: "Stream[Any, Any]") -> Call:
    metadata: dict[str, str] = {}
    for name, value in (stream.metadata or {}).items():
        if isinstance(value, str):
            metadata.setdefault(name, value)
    deadline = None
    if stream.deadline is not None:
        deadline = asyncio.get_running_loop().time() + stream.deadline.time_remaining()
    host, port = (stream.peer.addr() or ("", 0))[:2]
    return Call(metadata, address_text(host, port), deadline)
