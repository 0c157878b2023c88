"""The proxy: the rpcs of ``apache.rocketmq.v2`` over the brokers that some name servers know."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from google.protobuf.message_factory import GetMessageClass

from cometmq.admin.cluster import ClusterAdmin
from cometmq.client.background import start_task
from cometmq.client.credentials import find_credentials
from cometmq.errors import CometMQError, SettingsError
from cometmq.io.clock import SystemClock
from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.connection import Connection, refuse_request
from cometmq.net.exposure import is_loopback
from cometmq.net.tls.client import TLS
from cometmq.net.tls.server import server_tls
from cometmq.net.tls.settings import TlsMode
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.access import Admit, ClientAccess, admit_all
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.calling import call_for
from cometmq.proxy.clients import Clients, ConnectedClient
from cometmq.proxy.fellow_workers import FellowWorkers, WorkerPlace
from cometmq.proxy.membership import ProxyMembership
from cometmq.proxy.messages.bodies import Bodies
from cometmq.proxy.outcomes import CallCounts, Failure, status_of
from cometmq.proxy.renewals import LOOK_S, Renewals
from cometmq.proxy.rpcs.acknowledging import Acknowledging
from cometmq.proxy.rpcs.pulling import PullingQueues
from cometmq.proxy.rpcs.receiving import Receiving
from cometmq.proxy.rpcs.relayed import RelayedRequests
from cometmq.proxy.rpcs.routing import Routing
from cometmq.proxy.rpcs.sending import Sending
from cometmq.proxy.rpcs.sessions import TELEMETRY, Sessions, settings_refused
from cometmq.proxy.rpcs.transactions import ClientTransactions
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import ALPN, METHODS, SETTINGS, Call, GrpcServer, Rpc
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

PORT: Final = 8081
"""The port that clients' documentation names."""

CLIENT_ID_LENGTH_MAX: Final = 512
"""Longest client id; it is kept as long as the client is known."""
FINISH_S: Final = 5.0
"""How long a proxy that stops waits for calls under way; those that wait for messages are cancelled."""

UnaryRpc = Callable[[Any, Call], Awaitable[Any]]
"""Answers a request with one answer. Raises CometMQError."""

_log = get_logger(__name__)


class Proxy:
    """Serves RocketMQ 5 clients; as a context manager it starts and stops.

    Args:
        name_servers: addresses, ``host:port``.
        host: address to listen on.
        port: port to listen on; 0 for any free one.
        insecure: whether it may listen where other machines reach it.
        credentials: sign the requests to name servers and brokers, for all clients; None for those of the
            environment (``client/credentials.py``).
        tls: how to connect to name servers and brokers by TLS; None to connect plainly.
        settings: limit what clients may take, and are the TLS of its own port.
        authenticate: whether calls must be signed by users of the brokers, who may do what they ask for; the
            ``credentials`` must be a super user's, to look them up.

    Attributes:
        counts: the calls that have been answered.
    """

    def __init__(
        self,
        name_servers: Sequence[str],
        host: str = "127.0.0.1",
        port: int = PORT,
        *,
        insecure: bool = False,
        credentials: Credentials | None = None,
        tls: TLS | None = None,
        settings: ProxySettings = SETTINGS,
        authenticate: bool = False,
    ) -> None:
        self._host, self._wanted_port = host, port
        credentials, clock = find_credentials(credentials), SystemClock()
        if authenticate and credentials is None:
            raise SettingsError(
                "the proxy is to check signatures, but has no credentials to look up users: give it those of "
                "a super user, by --credentials"
            )
        self._insecure, self._authenticates = insecure, authenticate
        self._has_tls = settings.tls.tls_mode is not TlsMode.DISABLED
        self._brokers = Brokers(name_servers, clock, self._on_request, credentials=credentials, tls=tls)
        self._cluster = ClusterAdmin(";".join(name_servers), credentials=credentials, tls=tls)
        self._access = ClientAccess(self._cluster, clock.monotonic_ms) if authenticate else None
        self._admit: Admit = admit_all if self._access is None else self._access.check
        self._clients, self._bodies = Clients(self._admit, settings), Bodies(settings.inflated_bytes_max)
        self._membership = ProxyMembership(self._brokers)
        self._renewals = Renewals(self._brokers, settings)
        self._transactions = ClientTransactions(self._brokers, self._clients, self._bodies)
        self._relayed = RelayedRequests(self._clients, self._membership, self._bodies)
        self._fellows = FellowWorkers()
        self._sessions = Sessions(
            self._brokers,
            self._clients,
            self._membership,
            self._renewals,
            self._transactions,
            self._relayed,
            self._fellows,
            self._admitted,
        )
        self._receiving = Receiving(
            self._brokers, self._clients, self._membership, self._fellows, self._renewals, self._bodies
        )
        self._acknowledging = Acknowledging(
            self._brokers, self._renewals, self._fellows, settings.request_items_max
        )
        self._sending = Sending(self._brokers, settings.request_items_max)
        self._routing = Routing(self._brokers)
        self.counts = CallCounts()
        self._server = GrpcServer(
            self._rpcs(),
            tls=server_tls(settings.tls, ALPN),
            identify=None if self._access is None else partial(self._identify, self._access),
            settings=settings,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def address(self) -> str:
        """``host:port`` that it listens on."""
        return address_text(self._host, self.port)

    @property
    def connected(self) -> int:
        """The number of open connections."""
        return self._server.connected

    @property
    def clients(self) -> Iterable[ConnectedClient]:
        """The clients that have sent their settings."""
        return self._clients

    async def start(self, worker: WorkerPlace | None = None) -> None:
        """Begin to serve.

        Args:
            worker: which of the processes that serve at this port it is; None if there are no others.

        Raises:
            SettingsError: it cannot listen there, or strangers could use it, which ``authenticate`` and
                ``insecure`` allow.
        """
        insecure = self._check_exposure()
        if insecure and (worker is None or worker.number == 0):
            _log.warning("the proxy is insecure: %s", insecure)
        await self._cluster.__aenter__()
        if worker is not None:
            await self._fellows.start(worker, self._rpcs_for_fellows())
        await self._server.start(self._host, self._wanted_port, shares_port=worker is not None)
        self._routing.own_address = self.address
        self._tasks = [
            start_task(self._membership.run(), "heartbeats of groups"),
            start_task(self._look(), "renewals of receipt handles"),
        ]

    async def stop(self) -> None:
        """Stop: clients are asked to connect elsewhere, calls under way end, and groups are left."""
        await self._server.refuse_connections()
        await self._sessions.send_away()
        await self._server.finish_calls(FINISH_S)
        await self._server.stop()
        await self._fellows.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._receiving.close()
        await self._transactions.close()
        await self._relayed.close()
        self._bodies.close()
        await self._membership.close()
        await self._brokers.close()
        await self._cluster.__aexit__()

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    def _check_exposure(self) -> str:
        """Return what is insecure about the proxy, and the remedy. Raises SettingsError."""
        if is_loopback(self._host) or (self._authenticates and self._has_tls):
            return ""
        if self._authenticates:
            return (
                f"clients of {self._host} sign a time and nothing else of a call: whoever is on its way can "
                "make others in its user's name. Demand TLS by --grpc-tls-cert and --grpc-tls-mode "
                "enforcing, or listen on 127.0.0.1"
            )
        if not self._insecure:
            raise SettingsError(
                f"cannot listen on {self._host}: other machines could reach the proxy, which checks no "
                "signatures of clients: have it check them by --authenticate, listen on 127.0.0.1, or "
                "allow that by --insecure"
            )
        return (
            f"whoever reaches {self._host} can send and receive all. Have it check signatures by "
            "--authenticate, or listen on 127.0.0.1"
        )

    def _rpcs(self) -> dict[str, Rpc]:
        """Return the rpcs by their names."""
        sending, pulling = self._sending, PullingQueues(self._brokers, self._bodies)
        acknowledging, sessions = self._acknowledging, self._sessions
        unary: dict[str, UnaryRpc] = {
            "QueryRoute": self._routing.query_route,
            "QueryAssignment": self._routing.query_assignment,
            "SendMessage": sending.send_message,
            "RecallMessage": sending.recall_message,
            "AckMessage": acknowledging.ack_message,
            "ChangeInvisibleDuration": acknowledging.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": acknowledging.forward_message_to_dead_letter_queue,
            "GetOffset": pulling.get_offset,
            "UpdateOffset": pulling.update_offset,
            "QueryOffset": pulling.query_offset,
            "EndTransaction": self._transactions.end_transaction,
            "Heartbeat": sessions.heartbeat,
            "NotifyClientTermination": sessions.notify_client_termination,
        }
        return {name: self._answered(name, rpc) for name, rpc in unary.items()} | {
            "ReceiveMessage": self._streamed("ReceiveMessage", self._receiving.receive_message),
            "PullMessage": self._streamed("PullMessage", pulling.pull_message),
            TELEMETRY: sessions.telemetry,
        }

    def _rpcs_for_fellows(self) -> dict[str, Rpc]:
        """Return what this worker does for others, whose clients were admitted there."""
        acknowledging, sessions = self._acknowledging, self._sessions
        rpcs: dict[str, UnaryRpc] = {
            "AckMessage": self._heard(acknowledging.ack_message),
            "ChangeInvisibleDuration": self._heard(acknowledging.change_invisible_duration),
            "ForwardMessageToDeadLetterQueue": self._heard(
                acknowledging.forward_message_to_dead_letter_queue
            ),
            "Heartbeat": sessions.is_heard_here,
            "NotifyClientTermination": sessions.forget_here,
        }
        return {name: _with_status(name, _of_fellow(rpc)) for name, rpc in rpcs.items()}

    def _heard(self, rpc: UnaryRpc) -> UnaryRpc:
        """Return an rpc that another worker passes on, whose client is heard by that."""

        async def serve(request: Any, call: Call) -> Any:
            self._clients.heard(call.client)
            return await rpc(request, call)

        return serve

    async def _admitted(self, name: str, request: Any, call: Call) -> Call:
        """Return a call with its user. Raises Failure if it does not say who calls, or may not be served."""
        if not call.client_id:
            raise Failure(pb.CLIENT_ID_REQUIRED, "x-mq-client-id is missing from the metadata of the call")
        if (length := len(call.client_id)) > CLIENT_ID_LENGTH_MAX:
            raise Failure(
                pb.BAD_REQUEST,
                f"a client id of {length} characters: at most {CLIENT_ID_LENGTH_MAX} are possible",
            )
        admitted = replace(call, user=await self._admit(name, request, call))
        self._clients.heard(admitted.client)
        return admitted

    async def _identify(self, access: ClientAccess, name: str, call: Call) -> Any:
        """Return the answer to a call that no known user has signed; None if one has. Raises CallRefused."""
        try:
            await access.caller(call)
        except CometMQError as error:
            if name == TELEMETRY:
                raise settings_refused(error) from None
            status = status_of(error)
            self.counts.add(name, status.code)
            return GetMessageClass(METHODS[name].output_type)(status=status)
        return None

    def _answered(self, name: str, rpc: UnaryRpc) -> Rpc:
        """Return an rpc that checks its callers, and is counted."""

        async def admitted(request: Any, call: Call) -> Any:
            return await rpc(request, await self._admitted(name, request, call))

        answer = _with_status(name, admitted)

        async def serve(request: Any, call: Call) -> Any:
            began = time.perf_counter()
            answered = await answer(request, call)
            self.counts.add(name, answered.status.code, time.perf_counter() - began)
            return answered

        return serve

    def _streamed(self, name: str, rpc: Rpc) -> Rpc:
        """Return an rpc with a stream of answers: one with a status if the call is not admitted."""
        answer = GetMessageClass(METHODS[name].output_type)

        async def serve(request: Any, call: Call) -> Any:
            try:
                admitted = await self._admitted(name, request, call)
            except CometMQError as error:
                status = status_of(error)
                self.counts.add(name, status.code)
                yield answer(status=status)
                return
            answers = rpc(request, admitted)
            try:
                async for one in answers:
                    if one.HasField("status"):
                        self.counts.add(name, one.status.code)
                    yield one
            finally:
                await answers.aclose()

        return serve

    async def _look(self) -> None:
        """Renew handles and forget silent clients, each 5 s."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self._renewals.renew()
            await self._sessions.forget_silent()

    def _on_request(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._transactions.check(connection, command)
        elif command.code in (RequestCode.CONSUME_MESSAGE_DIRECTLY, RequestCode.GET_CONSUMER_RUNNING_INFO):
            self._relayed.handle(connection, command)
        elif command.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            refuse_request(connection, command)


def _of_fellow(rpc: UnaryRpc) -> UnaryRpc:
    """Return an rpc that another worker calls for a client, which it names."""

    async def serve(request: Any, call: Call) -> Any:
        return await rpc(request, call_for(call))

    return serve


def _with_status(name: str, rpc: UnaryRpc) -> UnaryRpc:
    """Return an rpc of this name whose failures are answers with a status."""
    answer = GetMessageClass(METHODS[name].output_type)

    async def serve(request: Any, call: Call) -> Any:
        try:
            return await rpc(request, call)
        except CometMQError as error:
            return answer(status=status_of(error))

    return serve
