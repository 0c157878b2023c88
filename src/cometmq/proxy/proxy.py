"""The proxy: the rpcs of ``apache.rocketmq.v2`` over the brokers that some name servers know."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Self

from google.protobuf.message_factory import GetMessageClass

from cometmq.client.background import start_task
from cometmq.client.credentials import find_credentials
from cometmq.errors import CometMQError, SettingsError
from cometmq.io.clock import Clock, SystemClock
from cometmq.net.address import address_text
from cometmq.net.connection import Connection, refuse_request
from cometmq.net.exposure import is_loopback
from cometmq.net.tls.client import TLS
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.clients import Clients
from cometmq.proxy.membership import ProxyMembership
from cometmq.proxy.outcomes import Failure, status_of
from cometmq.proxy.renewals import LOOK_S, Renewals
from cometmq.proxy.rpcs.acknowledging import Acknowledging
from cometmq.proxy.rpcs.receiving import Receiving
from cometmq.proxy.rpcs.routing import Routing
from cometmq.proxy.rpcs.sending import Sending
from cometmq.proxy.rpcs.sessions import Sessions
from cometmq.proxy.rpcs.transactions import ClientTransactions
from cometmq.proxy.transport import METHODS, Call, GrpcServer, Rpc
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

PORT: Final = 8081
"""The port that clients' documentation names."""

Admit = Callable[[str, Call], None]
"""Checks a call of the rpc with this name by its metadata. Raises Failure to refuse it."""

_log = logging.getLogger(__name__)


def admit_identified(_rpc: str, call: Call) -> None:
    """Admit the calls of all clients that say who they are. Raises Failure for others."""
    if not call.client_id:
        raise Failure(pb.CLIENT_ID_REQUIRED, "x-mq-client-id is missing from the metadata of the call")


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
        admit: checks each call.
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
        clock: Clock | None = None,
        admit: Admit = admit_identified,
    ) -> None:
        self._host, self._wanted_port = host, port
        self._admit = admit
        self._insecure = insecure
        self._brokers = Brokers(
            name_servers,
            clock or SystemClock(),
            self._on_request,
            credentials=find_credentials(credentials),
            tls=tls,
        )
        self._clients = Clients()
        self._membership = ProxyMembership(self._brokers)
        self._renewals = Renewals(self._brokers)
        self._transactions = ClientTransactions(self._brokers, self._clients)
        self._sessions = Sessions(
            self._brokers, self._clients, self._membership, self._renewals, self._transactions
        )
        self._receiving = Receiving(self._brokers, self._membership, self._renewals.add)
        self._routing = Routing(self._brokers)
        self._server = GrpcServer(self._rpcs())
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def address(self) -> str:
        """``host:port`` that it listens on."""
        return address_text(self._host, self.port)

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            SettingsError: strangers could use it there, which ``insecure`` allows.
            OSError: it cannot listen there.
        """
        if not is_loopback(self._host):
            if not self._insecure:
                raise SettingsError(
                    f"cannot listen on {self._host}: other machines could reach the proxy, which checks no "
                    "signatures of clients: listen on 127.0.0.1, or allow that by --insecure"
                )
            _log.warning("the proxy is insecure: whoever reaches %s can send and receive all", self._host)
        await self._server.start(self._host, self._wanted_port)
        self._routing.own_address = self.address
        self._tasks = [
            start_task(self._membership.run(), "heartbeats of groups"),
            start_task(self._look(), "renewals of receipt handles"),
        ]

    async def stop(self) -> None:
        """Stop: calls under way end, and groups are left."""
        await self._server.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._receiving.close()
        await self._transactions.close()
        await self._membership.close()
        await self._brokers.close()

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    def _rpcs(self) -> dict[str, Rpc]:
        """Return the rpcs by their names."""
        sending = Sending(self._brokers)
        acknowledging = Acknowledging(self._brokers, self._renewals)
        sessions = self._sessions
        unary: dict[str, Callable[[Any, Call], Awaitable[Any]]] = {
            "QueryRoute": self._routing.query_route,
            "QueryAssignment": self._routing.query_assignment,
            "SendMessage": sending.send_message,
            "RecallMessage": sending.recall_message,
            "AckMessage": acknowledging.ack_message,
            "ChangeInvisibleDuration": acknowledging.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": acknowledging.forward_message_to_dead_letter_queue,
            "EndTransaction": self._transactions.end_transaction,
            "Heartbeat": sessions.heartbeat,
            "NotifyClientTermination": sessions.notify_client_termination,
        }
        return {name: self._answered(name, rpc) for name, rpc in unary.items()} | {
            "ReceiveMessage": self._streamed("ReceiveMessage", self._receiving.receive_message),
            "Telemetry": sessions.telemetry,
        }

    def _answered(self, name: str, rpc: Callable[[Any, Call], Awaitable[Any]]) -> Rpc:
        """Return an rpc whose failures are answers with a status."""
        answer = GetMessageClass(METHODS[name].output_type)

        async def serve(request: Any, call: Call) -> Any:
            try:
                self._admit(name, call)
                return await rpc(request, call)
            except CometMQError as error:
                return answer(status=status_of(error))

        return serve

    def _streamed(self, name: str, rpc: Rpc) -> Rpc:
        """Return an rpc with a stream of answers: one with a status if the call is not admitted."""
        answer = GetMessageClass(METHODS[name].output_type)

        async def serve(request: Any, call: Call) -> Any:
            try:
                self._admit(name, call)
            except CometMQError as error:
                yield answer(status=status_of(error))
                return
            answers = rpc(request, call)
            try:
                async for one in answers:
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
        elif command.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            refuse_request(connection, command)
