"""The gRPC transport behind a small interface of its own, so that another library can take grpclib's place.

An rpc is a function of one request, or of the stream of requests, and of its ``Call``. It returns the answer,
or iterates over the answers. Which of these, the ``.proto`` file says.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.message_factory import GetMessageClass
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Stream
from h2.exceptions import ProtocolError as H2ProtocolError

from cometmq.errors import NetworkError
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.listening import listen, listen_at
from cometmq.net.newcomers import Newcomers
from cometmq.net.tls.server import ServerTls
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.connection import NEWCOMER_LIMITS, GrpcConnection, Shared, connection_of
from cometmq.proxy.http2.faults import PeerFaults
from cometmq.proxy.http2.streams import CallStream
from cometmq.proxy.http2.turns import Turns
from cometmq.proxy.http2.unread import UnreadRequests
from cometmq.proxy.http2.unsent import AnswersHeld, Recipient, Unsent
from cometmq.proxy.parts import PARTS_MAX, has_too_many_parts
from cometmq.proxy.settings import ProxySettings

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
"""The name of the rpcs' service on the wire; that in our own ``.proto`` file differs."""
METHODS: Final[Mapping[str, MethodDescriptor]] = {
    method.name: method for method in pb.DESCRIPTOR.services_by_name["MessagingService"].methods
}
"""The rpcs of the ``.proto`` file by their names."""
REQUEST_BYTES_MAX: Final = 16 << 20
"""Largest request to send; a message of 4 MiB with its properties is far smaller."""
PLAIN_REQUEST_BYTES_MAX: Final = 1 << 20
"""Largest request without messages: it may consist of very many small parts."""
ARRIVING_BYTES_MAX: Final = 256 << 20
"""Most bytes of all requests together that have come and are not whole."""
SLOW_S: Final = 2.0
"""How long a request may take to arrive while others need the room of its bytes."""
BACKLOG: Final = 1_024
CLIENT_ID: Final = "x-mq-client-id"
"""The header with the id of the client."""
ALPN: Final = ("h2",)
"""The name of HTTP/2 in TLS handshakes."""
SETTINGS: Final = ProxySettings()
"""Those of a proxy that is given no others."""
_SEND: Final = GetMessageClass(METHODS["SendMessage"].input_type)
_HEAD: Final = struct.Struct(">?I")
"""What stands before each message: whether it is compressed, and its size."""


class GrpcStatus(Enum):
    """The failures that an rpc reports by gRPC itself; all others are answers with a code of their own."""

    INVALID_ARGUMENT = Status.INVALID_ARGUMENT
    INTERNAL = Status.INTERNAL
    RESOURCE_EXHAUSTED = Status.RESOURCE_EXHAUSTED


class CallRefused(Exception):
    """An rpc ends with a status of gRPC instead of an answer."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class ClientKey(NamedTuple):
    """What tells clients apart: those of two users may have the same id, and are two clients.

    Attributes:
        user: who signs its calls; empty if calls need no signature.
    """

    user: str
    client_id: str


def _stay(_reason: str) -> None:
    """Close nothing: the call has no connection."""


@dataclass(frozen=True)
class Call:
    """What is known of a call beside its request.

    Attributes:
        metadata: the first value of each of the client's headers that mean something here
            (``http2.headers``), by its name in small letters.
        peer: ``ip:port`` of the client.
        deadline: when the client stops waiting, by the event loop's clock; None if it waits for ever.
        hang_up: closes the client's connection at once, and logs the reason.
        user: who has signed it, once that was checked; empty if calls need no signature.
        answers: limit what the proxy holds for it.
    """

    metadata: Mapping[str, str]
    peer: str
    deadline: float | None = None
    hang_up: Callable[[str], None] = _stay
    user: str = ""
    answers: AnswersHeld = field(default_factory=AnswersHeld)

    @property
    def client_id(self) -> str:
        """The client's id; empty if it has sent none."""
        return self.metadata.get(CLIENT_ID, "").strip()

    @property
    def client(self) -> ClientKey:
        """The client that calls."""
        return ClientKey(self.user, self.client_id)

    @property
    def language(self) -> str:
        """The language of the client's library, in capital letters; empty if it has sent none."""
        return self.metadata.get("x-mq-language", "").strip().upper()

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
    _recipient: Recipient | None = None
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, answer: ProtobufMessage) -> None:
        """Send an answer; waits while the client reads too slowly.

        Raises NetworkError if it has gone, or if too many answers wait.
        """
        held = None
        if self._recipient is not None and self._sending.locked():
            held = self._recipient.try_hold(answer.ByteSize())
            if held is None:
                raise NetworkError("the client's stream takes nothing more: too many answers are unread")
        try:
            async with self._sending:  # parts of two long answers must not mix
                await self._send(answer)
        except (H2ProtocolError, StreamTerminatedError) as error:
            raise NetworkError(f"the client's stream has ended: {error}") from None
        finally:
            if held is not None and self._recipient is not None:
                self._recipient.release(held)


Rpc = Callable[[Any, Call], Any]
"""An async function of the request that returns the answer; an async generator of the answers; or an async
function of an ``Exchange``."""


Identify = Callable[[str, Call], Awaitable[ProtobufMessage | None]]
"""Checks by the metadata of a call of the rpc with this name who has signed it. Returns None for a known
user, else the answer. Raises CallRefused instead where that is how the rpc is refused."""


class GrpcServer:
    """Serves rpcs on one port; those that are missing are answered with UNIMPLEMENTED.

    Args:
        rpcs: by their names in the ``.proto`` file.
        tls: decides which connections are TLS, made with ``ALPN``; None for plain ones only.
        identify: judges the calls of connections on which no known user has signed one yet, before their
            requests are read; None if all are welcome.
        settings: limit what clients may take.

    Attributes:
        port: the port that it listens on.
    """

    def __init__(
        self,
        rpcs: Mapping[str, Rpc],
        *,
        tls: ServerTls | None = None,
        identify: Identify | None = None,
        settings: ProxySettings = SETTINGS,
    ) -> None:
        self._rpcs = rpcs
        self._handlers = {f"/{SERVICE}/{name}": self._handler(one) for name, one in METHODS.items()}
        self._tls = tls
        self._acceptor: Acceptor | None = None
        self._identify = identify
        self._newcomers = None if identify is None else Newcomers(NEWCOMER_LIMITS)
        self._connections: set[GrpcConnection] = set()
        self._faults = PeerFaults()
        self._shared = Shared(
            settings,
            self._connections,
            Turns(settings.turn_frames_max),
            Unsent(settings.unsent_bytes_max, settings.unsent_bytes_total_max),
            UnreadRequests(),
            self._faults,
            self._newcomers,
        )
        self._unary: set[asyncio.Task[Any]] = set()
        self.port = 0

    @property
    def connected(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def start(self, host: str, port: int, *, shares_port: bool = False) -> None:
        """Listen; a port of 0 is any free one. Raises SettingsError if it cannot.

        Args:
            shares_port: whether other processes may listen there, too.
        """
        sockets = await listen("proxy", host, port, BACKLOG, shares_port=shares_port)
        self._accept(sockets)
        self.port = sockets[0].getsockname()[1]
        if self._tls is not None:
            self._tls.start()

    async def start_at(self, path: Path) -> None:
        """Listen at a unix socket. Raises OSError if it cannot."""
        self._accept([listen_at(path, BACKLOG)])

    async def refuse_connections(self) -> None:
        """Listen no more; what is connected goes on."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.close()
            await acceptor.wait_closed()

    async def finish_calls(self, timeout_s: float) -> None:
        """Wait until the calls with one request and one answer have ended that are under way now."""
        if self._unary:
            await asyncio.wait(self._unary, timeout=timeout_s)

    async def stop(self) -> None:
        """Cancel the calls under way, and close all connections."""
        await self.refuse_connections()
        all_calls = [connection.calls for connection in self._connections]
        for connection in list(self._connections):
            connection.end()
        for calls in all_calls:
            await calls.wait_closed()
        if self._newcomers is not None:
            self._newcomers.close()
        self._faults.close()
        if self._tls is not None:
            await self._tls.stop()

    def _accept(self, sockets: list[socket.socket]) -> None:
        crowd = None if self._newcomers is None else self._newcomers.crowd
        self._acceptor = Acceptor(sockets, self._connect, ConnectionCount(), self._tls, crowd)

    def _connect(self, release: Callable[[], None]) -> GrpcConnection:
        """Create the protocol of a new connection."""
        return GrpcConnection(self._handlers, self._shared, release)

    def _handler(self, method: MethodDescriptor) -> Handler:
        cardinality = _CARDINALITY[method.client_streaming, method.server_streaming]
        is_unary = cardinality is Cardinality.UNARY_UNARY
        serve, rpc = _SERVE[cardinality], self._rpcs.get(method.name)

        async def handle(stream: "Stream[Any, Any]") -> None:
            if rpc is None:  # grpclib's own refusal lacks a header that clients require
                raise GRPCError(Status.UNIMPLEMENTED, f"{method.name} is not served")
            task = asyncio.current_task()
            if is_unary and task is not None:
                self._unary.add(task)
            try:
                if await self._is_welcome(method.name, stream):
                    await serve(stream, rpc)
            except CallRefused as refused:
                raise GRPCError(refused.status.value, str(refused)) from None
            finally:
                if task is not None:
                    self._unary.discard(task)
                del task  # its error refers to this frame

        return Handler(
            handle, cardinality, GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        )

    async def _is_welcome(self, name: str, stream: "Stream[Any, Any]") -> bool:
        """Return whether a call's request may be read; answer it if no known user has signed one yet."""
        connection = connection_of(stream)
        if self._identify is None or connection.newcomers is None:
            return True
        try:
            refusal = await self._identify(name, _call_of(stream))
        except CallRefused:
            connection.count_refused()
            raise
        if refusal is None:
            connection.recognise()
            return True
        connection.count_refused()
        await stream.send_message(refusal)
        return False


class _Arrival:
    """What has come of a request that is not whole.

    Args:
        cut: closes its connection for a reason.
    """

    def __init__(self, cut: Callable[[str], None]) -> None:
        self.cut = cut
        self.size = 0
        self.since = asyncio.get_running_loop().time()


class _Arriving:
    """What has come of all requests of this process that are not whole, in bytes.

    A size that is only announced takes no room, and neither does a request that comes as a whole. If there is
    no room, the request that takes longest gives way.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._held: dict[_Arrival, None] = {}  # the oldest first

    @contextmanager
    def of(self, cut: Callable[[str], None]) -> Iterator[Callable[[int], None]]:
        """Hold a request while it arrives: call the result with how many bytes of it have come.

        That raises CallRefused if all together are too large.
        """
        arrival = _Arrival(cut)
        try:
            yield partial(self._grow, arrival)
        finally:
            self._drop(arrival)

    def _grow(self, arrival: _Arrival, size: int) -> None:
        more = size - arrival.size
        while self._bytes + more > ARRIVING_BYTES_MAX:
            oldest = next(iter(self._held), arrival)
            if oldest is arrival or asyncio.get_running_loop().time() - oldest.since < SLOW_S:
                text = f"{self._bytes} bytes of requests are arriving, and {more} more: try again later"
                raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED, text)
            self._drop(oldest)
            oldest.cut(f"a request takes longer than {SLOW_S:g} s, and others need the room of its bytes")
        self._held[arrival] = None
        self._bytes += more
        arrival.size = size

    def _drop(self, arrival: _Arrival) -> None:
        if arrival in self._held:
            del self._held[arrival]
            self._bytes -= arrival.size


_ARRIVING: Final = _Arriving()


async def _receive(stream: "Stream[Any, Any]") -> Any:
    """Return the next request, None after the last. Raises CallRefused if it is too large or compressed."""
    unread = cast(CallStream, stream._stream).request  # noqa: SLF001 its own method reads any size
    head = await unread.peek(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise CallRefused(GrpcStatus.INVALID_ARGUMENT, f"a request ends after {len(head)} bytes")
    is_compressed, size = _HEAD.unpack(head)
    if is_compressed:
        raise GRPCError(Status.UNIMPLEMENTED, "requests must not be compressed")
    if size > (most := _most_bytes(stream)):
        text = f"a request of {size} bytes: at most {most} are possible"
        raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED, text)
    with _ARRIVING.of(connection_of(stream).calm) as take_room:
        data = await unread.read(size, skipped=_HEAD.size, take_room=take_room)
    if len(data) < size:
        text = f"a request of {size} bytes ends after {len(data)} of them"
        raise CallRefused(GrpcStatus.INVALID_ARGUMENT, text)
    if has_too_many_parts(data, stream._recv_type.DESCRIPTOR):  # noqa: SLF001 as above
        text = f"a request of {size} bytes has more than {PARTS_MAX} parts: send it in smaller ones"
        raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED, text)
    try:
        return stream._recv_type.FromString(data)  # noqa: SLF001 as above
    except DecodeError as error:
        raise CallRefused(GrpcStatus.INVALID_ARGUMENT, f"the request cannot be decoded: {error}") from None


def _most_bytes(stream: "Stream[Any, Any]") -> int:
    """Return how many bytes a request may have."""
    has_messages = stream._recv_type is _SEND  # noqa: SLF001 as above
    return REQUEST_BYTES_MAX if has_messages else min(REQUEST_BYTES_MAX, PLAIN_REQUEST_BYTES_MAX)


async def _requests(stream: "Stream[Any, Any]") -> AsyncIterator[Any]:
    while (request := await _receive(stream)) is not None:
        yield request


async def _only_request(stream: "Stream[Any, Any]") -> Any:
    """Return the request of a call that has one. Raises CallRefused if there is none."""
    if (request := await _receive(stream)) is None:
        raise CallRefused(GrpcStatus.INVALID_ARGUMENT, "the call has no request")
    cast(CallStream, stream._stream).request.drop_rest()  # noqa: SLF001 as above
    return request


async def _serve_unary(stream: "Stream[Any, Any]", rpc: Rpc) -> None:
    request = await _only_request(stream)
    await stream.send_message(await rpc(request, _call_of(stream)))


async def _serve_stream(stream: "Stream[Any, Any]", rpc: Rpc) -> None:
    request, call = await _only_request(stream), _call_of(stream)
    answers = rpc(request, call)
    try:
        async for answer in answers:
            await stream.send_message(answer)
    finally:
        await answers.aclose()
        call.answers.release()


async def _serve_exchange(stream: "Stream[Any, Any]", rpc: Rpc) -> None:
    exchange = Exchange(_requests(stream), stream.send_message, _recipient_of(stream))
    await rpc(exchange, _call_of(stream))


_CARDINALITY: Final = {(one.client_streaming, one.server_streaming): one for one in Cardinality}
_SERVE: Final = {
    Cardinality.UNARY_UNARY: _serve_unary,
    Cardinality.UNARY_STREAM: _serve_stream,
    Cardinality.STREAM_STREAM: _serve_exchange,
}


def _call_of(stream: "Stream[Any, Any]") -> Call:
    deadline = None
    if stream.deadline is not None:
        deadline = asyncio.get_running_loop().time() + stream.deadline.time_remaining()
    connection = connection_of(stream)
    metadata = cast(Mapping[str, str], stream.metadata)
    answers = AnswersHeld(_recipient_of(stream))
    return Call(metadata, str(connection), deadline, connection.abort, answers=answers)


def _recipient_of(stream: "Stream[Any, Any]") -> Recipient:
    """Return what counts the unsent answers of a call's connection."""
    return cast(CallStream, stream._stream).recipient  # noqa: SLF001 the stream does not say
