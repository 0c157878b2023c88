"""Requests of operators to the members of a group, which the proxy passes on to its clients by their streams.

========================== ============================== ============================================
request of a broker        command to a client            answer to the broker
========================== ============================== ============================================
CONSUME_MESSAGE_DIRECTLY   verify_message_command         what became of the message
GET_CONSUMER_RUNNING_INFO  print_thread_stack_trace       the proxy's state, and the clients' stacks
========================== ============================== ============================================

A client gets a message only while its user may receive in the group, and of the message's topic.

Source: RocketMQ ``proxy/grpc/v2/channel/GrpcClientChannel.java``, ``GrpcChannelManager.java``.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

from cometmq.client.background import start_task
from cometmq.errors import CometMQError, FormatError, NotFound, RequestTimeout
from cometmq.format.pop.names import normal_topic
from cometmq.format.record import decode as decode_record
from cometmq.format.stored import message_as_stored
from cometmq.net.connection import Connection
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.clients import Clients, ConnectedClient
from cometmq.proxy.membership import CONSUME_TYPE, ProxyMembership
from cometmq.proxy.messages.bodies import Bodies
from cometmq.proxy.messages.received import received_message
from cometmq.proxy.transport import ClientKey, Exchange
from cometmq.wire.bodies.body import Body, encode
from cometmq.wire.bodies.running import ConsumedDirectly, ConsumeResult, RunningInfo
from cometmq.wire.codes import RequestCode, ResponseCode, version_name
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import ConsumeDirectlyHeader, RunningInfoHeader, parse

ANSWER_S: Final = 9.0
"""How long a client may take; a broker waits for ten seconds."""
_NONCE_BYTES: Final = 16
_RESULTS: Final[Mapping[int, ConsumeResult]] = {
    pb.OK: ConsumeResult.SUCCESS,
    pb.FAILED_TO_CONSUME_MESSAGE: ConsumeResult.LATER,
    pb.MESSAGE_CORRUPTED: ConsumeResult.RETURN_NULL,
}


class RelayedRequests:
    """Answers the requests of operators with what clients say."""

    def __init__(self, clients: Clients, membership: ProxyMembership, bodies: Bodies) -> None:
        self._bodies = bodies
        self._clients = clients
        self._membership = membership
        self._waiting: dict[tuple[ClientKey, str], asyncio.Future[pb.TelemetryCommand]] = {}
        self._turn = count()
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, connection: Connection, command: Command) -> None:
        """Begin to answer a request of a broker."""
        task = start_task(self._respond(connection, command), f"answer to request {command.code}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def settle(self, client: ClientKey, nonce: str, answer: pb.TelemetryCommand) -> None:
        """Pass on a client's answer; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get((client, nonce))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def close(self) -> None:
        """Cancel what is being answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _respond(self, connection: Connection, command: Command) -> None:
        is_message = command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
        answer = self._consume_directly if is_message else self._running_info
        try:
            body: Body = await answer(command)
        except CometMQError as error:
            connection.send(response(command, ResponseCode.SYSTEM_ERROR, str(error)))
        else:
            connection.send(response(command, body=encode(body)))

    async def _consume_directly(self, command: Command) -> ConsumedDirectly:
        """Pass a message to one of a group's push consumers. Raises CometMQError."""
        group = parse(ConsumeDirectlyHeader, command.ext_fields).consumer_group
        stored = message_as_stored(decode_record(command.body))
        message = received_message(await self._bodies.readable(stored))
        client, exchange = await self._push_consumer(group, message.topic.name)
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await self._ask(
            client,
            exchange,
            lambda nonce: pb.TelemetryCommand(
                verify_message_command=pb.VerifyMessageCommand(nonce=nonce, message=message)
            ),
        )
        result = _RESULTS.get(answer.status.code)
        if result is None:
            code = pb.Code.Name(answer.status.code)
            raise FormatError(f"client {client.client_id} answers {code}: {answer.status.message}")
        spent_ms = int((loop.time() - began) * 1000)
        is_ordered = client.settings.subscription.fifo
        return ConsumedDirectly(result, is_ordered, remark=client.client_id, spent_ms=spent_ms)

    async def _push_consumer(self, group: str, topic: str) -> tuple[ConnectedClient, Exchange]:
        """Return one of a group's push consumers that may get messages of a topic, and its stream.

        Raises NotFound if there is none.
        """
        members = [one for one in self._members(group) if one.settings.client_type == pb.PUSH_CONSUMER]
        if not members:
            raise NotFound(f"group {group!r} has no push consumer at this proxy")
        receiving = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            message_queue=pb.MessageQueue(topic=pb.Resource(name=normal_topic(topic, group))),
        )
        start = next(self._turn) % len(members)
        for client in members[start:] + members[:start]:
            exchange = await self._clients.find_exchange(client, "ReceiveMessage", receiving)
            if exchange is not None and client.group == group:
                return client, exchange
        raise NotFound(
            f"no push consumer of group {group!r} at this proxy is one of a user who may receive messages of "
            f"topic {topic!r}"
        )

    async def _running_info(self, command: Command) -> RunningInfo:
        """Return the state of this proxy as a member of a group; with its clients' stacks if wanted."""
        header = parse(RunningInfoHeader, command.ext_fields)
        members = self._members(header.consumer_group)
        properties = {
            "PROP_CONSUME_TYPE": CONSUME_TYPE.value,
            "PROP_CLIENT_VERSION": version_name(Command(0).version),
            "PROXY_CLIENTS": ", ".join(sorted(one.client_id for one in members)),
        }
        stacks = None
        if header.with_stacks:
            stacks = await asyncio.gather(*(self._stacks(one, header.consumer_group) for one in members))
        return RunningInfo(
            properties,
            self._membership.subscriptions(header.consumer_group),
            stacks=None if stacks is None else "\n".join(stacks),
        )

    async def _stacks(self, client: ConnectedClient, group: str) -> str:
        """Return the stacks of a member's threads, or why there are none."""
        beat = pb.HeartbeatRequest(group=pb.Resource(name=group))
        exchange = await self._clients.find_exchange(client, "Heartbeat", beat)
        if exchange is None:
            return f"{client.client_id}: its user may not be a member of group {group!r} any more\n"
        try:
            answer = await self._ask(
                client,
                exchange,
                lambda nonce: pb.TelemetryCommand(
                    print_thread_stack_trace_command=pb.PrintThreadStackTraceCommand(nonce=nonce)
                ),
            )
        except CometMQError as error:
            return f"{client.client_id}: {error}\n"
        text = answer.thread_stack_trace.thread_stack_trace or answer.status.message
        return f"{client.client_id}:\n{text}\n"

    async def _ask(
        self, client: ConnectedClient, exchange: Exchange, make: Callable[[str], pb.TelemetryCommand]
    ) -> pb.TelemetryCommand:
        """Send a command, made with a nonce, and return the answer. Raises NetworkError or RequestTimeout."""
        nonce = secrets.token_hex(_NONCE_BYTES)
        answer = self._waiting[client.key, nonce] = asyncio.get_running_loop().create_future()
        try:
            await exchange.send(make(nonce))
            return await asyncio.wait_for(answer, ANSWER_S)
        except TimeoutError:
            raise RequestTimeout(f"client {client.client_id} has not answered in {ANSWER_S:g} s") from None
        finally:
            del self._waiting[client.key, nonce]

    def _members(self, group: str) -> list[ConnectedClient]:
        """Return the clients of a group that can be asked."""
        return [client for client in self._clients if client.group == group and client.exchanges]
