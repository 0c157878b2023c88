"""EndTransaction, and brokers' checks of transactions that no client has ended.

The producer group of a topic's transactions has the name of the topic: this proxy is a member of it, so that
brokers ask it. It asks one of the clients that publish the topic, by its telemetry stream, and whose user may
send to it: with the question comes the message.

Source: RocketMQ ``proxy/grpc/v2/transaction/EndTransactionActivity.java`` and
``proxy/service/transaction/ClusterTransactionService.java``.
"""

import asyncio
from itertools import count
from typing import Final

from cometmq.client.background import start_task
from cometmq.client.identity import client_id
from cometmq.client.producer.presence import Presence
from cometmq.client.producer.transaction import TransactionState, end_request
from cometmq.errors import FormatError, NetworkError
from cometmq.format import properties
from cometmq.format.record import decode as decode_record
from cometmq.format.stored import message_as_stored
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.connection import Connection
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.clients import Clients
from cometmq.proxy.messages.bodies import Bodies
from cometmq.proxy.messages.received import received_message
from cometmq.proxy.messages.transaction_ids import HalfMessageId, parse_transaction_id
from cometmq.proxy.names import checked_topic
from cometmq.proxy.outcomes import OK
from cometmq.proxy.transport import Call
from cometmq.wire.frame import Command
from cometmq.wire.headers import CheckTransactionStateHeader, EndTransactionHeader, parse

_STATES: Final = {pb.COMMIT: TransactionState.COMMIT, pb.ROLLBACK: TransactionState.ROLLBACK}
_log = get_logger(__name__)


class ClientTransactions:
    """Ends transactions for clients, and passes on the checks of brokers."""

    def __init__(self, brokers: Brokers, clients: Clients, bodies: Bodies) -> None:
        self._bodies = bodies
        self._brokers = brokers
        self._clients = clients
        self._client_id = client_id()
        self._presences: dict[str, Presence] = {}
        self._turn = count()
        self._asking: set[asyncio.Task[None]] = set()

    async def publish(self, topic: str) -> None:
        """Register with the brokers of a topic that accepts transactions, for a client that publishes it.

        Raises like ``Brokers.route``.
        """
        accepted = await self._brokers.accepted_types(topic)
        if pb.TRANSACTION not in accepted or topic in self._presences or not self._is_published(topic):
            return
        presence = self._presences[topic] = Presence(self._brokers.connections, self._client_id, topic)
        presence.add_topics([topic], self._brokers.routes)

    async def withdraw(self, topic: str) -> None:
        """Unregister from a topic if no client publishes it any more, so that brokers ask another proxy."""
        if topic in self._presences and not self._is_published(topic):
            await self._presences.pop(topic).close()

    async def close(self) -> None:
        """Unregister."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await asyncio.gather(*(presence.close() for presence in self._presences.values()))

    async def end_transaction(
        self, request: pb.EndTransactionRequest, _call: Call
    ) -> pb.EndTransactionResponse:
        """Commit or roll back; an unknown state has the broker ask again later."""
        topic, half = checked_topic(request.topic), parse_transaction_id(request.transaction_id)
        header = EndTransactionHeader(
            producer_group=topic,
            half_offset=half.half_offset,
            physical_offset=half.physical_offset,
            decision=_STATES.get(request.resolution, TransactionState.UNKNOWN).value,
            message_id=half.unique_id,
            from_check=request.source == pb.SOURCE_SERVER_CHECK,
            transaction_id=half.unique_id,
            topic=topic,
        )
        address = await self._brokers.routes.master(MessageQueue(topic, half.broker_name, 0))
        await self._brokers.connections.oneway(address, end_request(header, None))
        return pb.EndTransactionResponse(status=OK)

    def check(self, connection: Connection, command: Command) -> None:
        """Pass a broker's check on to a client that publishes the topic. Raises FormatError."""
        header = parse(CheckTransactionStateHeader, command.ext_fields)
        message = message_as_stored(decode_record(command.body))
        topic = message.properties.get(properties.PRODUCER_GROUP, "")
        if (real_topic := message.properties.get(properties.REAL_TOPIC, topic)) != topic:
            _log.info("producer group %r is not of topic %r: nobody is asked", topic, real_topic)
            return
        broker_name = header.broker_name or self._broker_at(topic, connection.address)
        if broker_name is None:
            raise FormatError(
                f"{connection.address} checks a transaction of topic {topic!r}, which it does not have"
            )
        half = HalfMessageId(broker_name, header.half_offset, header.physical_offset, message.message_id)
        task = start_task(self._ask(topic, message, str(half)), f"check of message {message.message_id}")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, topic: str, message: StoredMessage, transaction_id: str) -> None:
        """Ask one of the clients that publish a topic; without one the broker asks again later."""
        readable = await self._bodies.readable(message)
        recovery = pb.RecoverOrphanedTransactionCommand(
            message=received_message(readable), transaction_id=transaction_id
        )
        recovery.message.topic.name = topic
        command = pb.TelemetryCommand(recover_orphaned_transaction_command=recovery)
        clients = [client for client in self._clients if client.publishes(topic)]
        start = next(self._turn) % max(1, len(clients))
        ending = pb.EndTransactionRequest(topic=pb.Resource(name=topic))
        for client in clients[start:] + clients[:start]:
            exchange = await self._clients.find_exchange(client, "EndTransaction", ending)
            if exchange is None or not client.publishes(topic):
                continue
            try:
                await exchange.send(command)
            except NetworkError as error:
                _log.info("the broker asks again about a transaction of %s: %s", topic, error)
            return
        _log.info("no client that may publishes %s, whose transactions a broker checks", topic)

    def _is_published(self, topic: str) -> bool:
        return any(client.publishes(topic) for client in self._clients)

    def _broker_at(self, topic: str, address: str) -> str | None:
        """Return the name of a topic's broker at an address; None if the topic has none there."""
        route = self._brokers.routes.fresh(topic)
        if route is None:
            return None
        return next((name for name, by_id in route.addresses.items() if address in by_id.values()), None)
