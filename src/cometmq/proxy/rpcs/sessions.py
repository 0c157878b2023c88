"""Telemetry, Heartbeat and NotifyClientTermination: clients come, stay and go.

Source: RocketMQ ``proxy/grpc/v2/client/ClientActivity.java``. Unlike there, a consumer's group is created if
its broker allows that, and its settings may come after its first ReceiveMessage.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration

from cometmq.client.producer.outgoing import BODY_SIZE_MAX
from cometmq.errors import CometMQError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.clients import CONSUMERS, Clients, ConnectedClient
from cometmq.proxy.fellow_workers import FellowWorkers
from cometmq.proxy.filters import subscription_of
from cometmq.proxy.membership import ProxyMembership
from cometmq.proxy.names import checked_group, checked_topic
from cometmq.proxy.outcomes import OK, Failure, status_of
from cometmq.proxy.renewals import Renewals
from cometmq.proxy.rpcs.relayed import RelayedRequests
from cometmq.proxy.rpcs.transactions import ClientTransactions
from cometmq.proxy.transport import Call, CallRefused, Exchange, GrpcStatus
from cometmq.wire.bodies.group import GroupConfig

TELEMETRY: Final = "Telemetry"
"""The rpc whose requests and answers are streams."""
_CLIENT_ERRORS: Final = range(40_000, 50_000)
SEND_AWAY_S: Final = 1.0
_NONCE_BYTES: Final = 16
_ANSWERS: Final = frozenset({"verify_message_result", "thread_stack_trace"})
"""The commands by which clients answer those of the proxy."""

SEND_ATTEMPTS: Final = 3
RECEIVE_BATCH: Final = 32
POLLING_S: Final = 20
LITE_SUBSCRIPTIONS: Final = 2_000
LITE_TOPIC_LENGTH: Final = 64
_MINUTE: Final = 60
_DELAYS_S: Final = (
    *(1, 5, 10, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)
"""The delays before the retries of a message, the last one for all later ones."""


class Sessions:
    """Knows the clients, and registers what they do with the brokers."""

    def __init__(
        self,
        brokers: Brokers,
        clients: Clients,
        membership: ProxyMembership,
        renewals: Renewals,
        transactions: ClientTransactions,
        relayed: RelayedRequests,
        fellows: FellowWorkers,
        admit: Callable[[str, pb.Settings, Call], Awaitable[Call]],
    ) -> None:
        self._brokers = brokers
        self._clients = clients
        self._membership = membership
        self._renewals = renewals
        self._transactions = transactions
        self._relayed = relayed
        self._fellows = fellows
        self._admit = admit

    async def telemetry(self, exchange: Exchange, call: Call) -> None:
        """Answer a client's settings with the merged ones, as long as its stream is open.

        Raises CallRefused if they are illegal.
        """
        if not call.client_id:
            status = pb.Status(code=pb.CLIENT_ID_REQUIRED, message="x-mq-client-id is missing")
            await exchange.send(pb.TelemetryCommand(status=status))
            return
        admitted: Call | None = None
        try:
            async for command in exchange.requests:
                if (kind := command.WhichOneof("command")) != "settings":
                    if kind in _ANSWERS and admitted is not None:
                        self._relayed.settle(admitted.client, getattr(command, kind).nonce, command)
                    continue
                try:
                    admitted = await self._admit(TELEMETRY, command.settings, call)
                    merged = await self._accept(command.settings, exchange, admitted)
                except CometMQError as error:
                    raise settings_refused(error) from None
                await exchange.send(pb.TelemetryCommand(status=OK, settings=merged))
        finally:
            if admitted is not None:
                self._clients.end(admitted.client, exchange)

    async def heartbeat(self, request: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        """Keep a client that is alive."""
        if request.client_type != pb.PRODUCER and request.client_type not in CONSUMERS:
            raise Failure(
                pb.UNRECOGNIZED_CLIENT_TYPE, f"clients of type {request.client_type} are not served"
            )
        client = self._clients.find(call.client)
        if client is None or not client.has_settings:
            raise _unknown(call)
        return pb.HeartbeatResponse(status=OK)

    async def notify_client_termination(
        self, request: pb.NotifyClientTerminationRequest, call: Call
    ) -> pb.NotifyClientTerminationResponse:
        """Forget a client at all workers; its unacknowledged messages are delivered again soon.

        Raises Failure if none knows it.
        """
        is_known_elsewhere = await self._fellows.tell_end(call.client)
        try:
            return await self.forget_here(request, call)
        except Failure:
            if not is_known_elsewhere:
                raise
        return pb.NotifyClientTerminationResponse(status=OK)

    async def forget_here(
        self, _request: pb.NotifyClientTerminationRequest, call: Call
    ) -> pb.NotifyClientTerminationResponse:
        """Forget a client at this worker. Raises Failure if it is not known."""
        client = self._clients.find(call.client)
        if client is None:
            raise _unknown(call)
        await self._forget(client)
        return pb.NotifyClientTerminationResponse(status=OK)

    async def is_heard_here(self, _request: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        """Answer OK to another worker if a client has not gone without a word here."""
        if not self._clients.is_heard(call.client):
            raise Failure(pb.UNRECOGNIZED_CLIENT_TYPE, f"client {call.client_id!r} is not heard here")
        return pb.HeartbeatResponse(status=OK)

    async def send_away(self) -> None:
        """Ask all clients to connect anew, which leads them to another proxy if there is one."""
        command = pb.ReconnectEndpointsCommand(nonce=secrets.token_hex(_NONCE_BYTES))
        sends = (
            exchange.send(pb.TelemetryCommand(reconnect_endpoints_command=command))
            for client in self._clients
            for exchange in client.exchanges
        )
        with suppress(TimeoutError):  # of clients that do not read
            async with asyncio.timeout(SEND_AWAY_S):
                await asyncio.gather(*sends, return_exceptions=True)

    async def forget_silent(self) -> None:
        """Forget the clients that have gone without a word, and that no other worker hears."""
        for client in self._clients.silent():
            if await self._fellows.hear(client.key):
                continue
            if client.is_silent and self._clients.find(client.key) is client:
                await self._forget(client)
        for key, group in self._renewals.owners():  # one may leave while messages are on their way to it
            if self._clients.find(key) is None and not await self._fellows.hear(key):
                await self._renewals.release(key, group)

    async def _forget(self, client: ConnectedClient) -> None:
        self._clients.remove(client.key)
        for group in client.all_groups:
            await self._renewals.release(client.key, group)
        await self._drop(client.settings, client.groups)

    async def _drop(self, settings: pb.Settings, groups: Iterable[str] = ()) -> None:
        """Withdraw from the topics of settings, and leave their group and others, where no client is left."""
        for topic in settings.publishing.topics:
            await self._transactions.withdraw(topic.name)
        for group in {settings.subscription.group.name, *groups}:
            if not self._clients.has_member(group):
                await self._membership.leave(group)

    async def _accept(self, settings: pb.Settings, exchange: Exchange, call: Call) -> pb.Settings:
        """Check a client's settings, keep them, and return the merged ones. Raises Failure."""
        _check_kind(settings)
        known = self._clients.find(call.client)
        former = pb.Settings() if known is None else known.settings
        client = self._clients.update(call, settings, exchange)  # so that the rest ends with it
        group = None
        try:
            if settings.HasField("subscription"):
                group = await self._join(settings.subscription)
            for topic in settings.publishing.topics:
                await self._transactions.publish(checked_topic(topic))
        except CometMQError:
            self._clients.restore(client, former)
            raise
        finally:
            for one in (former, settings):
                await self._drop(one)
        return merged_settings(settings, group)

    async def _join(self, subscription: pb.Subscription) -> GroupConfig:
        """Return a consumer's group, which is created if brokers allow that. Raises Failure."""
        name = checked_group(subscription.group)
        now_ms = self._brokers.clock.now_ms()
        data = [
            subscription_of(checked_topic(entry.topic), entry.expression, now_ms)
            for entry in subscription.subscriptions
        ]
        await self._membership.join(name, data)
        if not data:
            return GroupConfig(group=name)  # no topic says which brokers know the group
        return await self._brokers.group(name, data[0].topic)


def _check_kind(settings: pb.Settings) -> None:
    """Check that settings are those of a producer, or of a consumer that is served. Raises Failure."""
    if settings.HasField("subscription"):
        if settings.client_type not in CONSUMERS:
            raise Failure(
                pb.UNRECOGNIZED_CLIENT_TYPE,
                f"consumers of type {pb.ClientType.Name(settings.client_type)} are not served",
            )
    elif not settings.HasField("publishing"):
        raise Failure(pb.BAD_REQUEST, "there is no publishing or subscription data in settings")


def _unknown(call: Call) -> Failure:
    return Failure(
        pb.UNRECOGNIZED_CLIENT_TYPE,
        f"client {call.client_id!r} has sent no settings: open a telemetry stream",
    )


def settings_refused(error: CometMQError) -> CallRefused:
    """Return what ends a stream whose settings fail."""
    status = status_of(error)
    kind = GrpcStatus.INVALID_ARGUMENT if status.code in _CLIENT_ERRORS else GrpcStatus.INTERNAL
    return CallRefused(kind, f"process client telemetryCommand failed. {status.message}")


def merged_settings(of_client: pb.Settings, group: GroupConfig | None) -> pb.Settings:
    """Return a client's settings with those of the service; ``group`` is that of a consumer.

    Source: RocketMQ ``proxy/grpc/v2/common/GrpcClientSettingsManager.java``.
    """
    merged = pb.Settings()
    merged.CopyFrom(of_client)
    merged.metric.CopyFrom(pb.Metric(on=False))
    if of_client.HasField("publishing"):
        merged.publishing.max_body_size = BODY_SIZE_MAX
        merged.publishing.validate_message_type = True
        merged.backoff_policy.CopyFrom(_SEND_POLICY)
    if group is not None:
        subscription = merged.subscription
        subscription.fifo = group.consume_message_orderly
        subscription.receive_batch_size = RECEIVE_BATCH
        subscription.long_polling_timeout.CopyFrom(Duration(seconds=POLLING_S))
        subscription.lite_subscription_quota = LITE_SUBSCRIPTIONS
        subscription.max_lite_topic_size = LITE_TOPIC_LENGTH
        merged.backoff_policy.CopyFrom(_retry_policy(group))
    return merged


def _retry_policy(group: GroupConfig) -> pb.RetryPolicy:
    policy = pb.RetryPolicy(max_attempts=group.retry_max_times + 1)
    if group.retry_policy.get("type") == "EXPONENTIAL":
        values = group.retry_policy.get("exponentialRetryPolicy") or {}
        policy.exponential_backoff.CopyFrom(
            pb.ExponentialBackoff(
                initial=_duration(values.get("initial"), 5_000),
                max=_duration(values.get("max"), 7_200_000),
                multiplier=values.get("multiplier") or 2,
            )
        )
    else:
        values = group.retry_policy.get("customizedRetryPolicy") or {}
        delays_ms = values.get("next") or [delay_s * 1000 for delay_s in _DELAYS_S]
        policy.customized_backoff.next.extend(_duration(delay_ms, 0) for delay_ms in delays_ms)
    return policy


def _duration(value_ms: Any, default_ms: int) -> Duration:
    """Return a duration of so many ms; of ``default_ms`` if the value of the group's table is no number."""
    number_ms = value_ms if isinstance(value_ms, int) else default_ms
    return Duration(seconds=number_ms // 1000, nanos=number_ms % 1000 * 1_000_000)


_SEND_POLICY: Final = pb.RetryPolicy(
    max_attempts=SEND_ATTEMPTS,
    exponential_backoff=pb.ExponentialBackoff(
        initial=_duration(10, 0), max=_duration(1_000, 0), multiplier=2
    ),
)
