"""Heartbeats and unregistrations of clients, and the members of consumer groups.

(RocketMQ: ClientManageProcessor.java, ConsumerManageProcessor.java.)
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused
from cometmq.broker.request_body import RequestBodies, slices
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.consumers import Consumers, Notify
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.producers import ConnectedMember, Producers
from cometmq.broker.state.saved_entries import Change, when_all_known
from cometmq.broker.state.subscriptions import Subscriptions
from cometmq.broker.state.topics import Topics
from cometmq.errors import IllegalName
from cometmq.format.java import fastjson
from cometmq.format.layout import RETRY_PREFIX
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.net.boundary import attempt
from cometmq.net.occasional_log import OccasionalLog
from cometmq.net.server import Session
from cometmq.wire.bodies import (
    ClientConfigCheck,
    ConsumerData,
    ConsumerIds,
    Heartbeat,
    TopicConfig,
)
from cometmq.wire.bodies.body import wire_name
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, Command, encode, response
from cometmq.wire.headers import (
    ConsumerGroupHeader,
    HeartbeatResponseHeader,
    NoFields,
    UnregisterClientHeader,
    fields,
)

SLICE_WEIGHT: Final = 4_000
"""Most work, in subscriptions, of a heartbeat that one turn of the loop registers."""
GROUP_WEIGHT: Final = 8
"""The work of a group, in subscriptions."""

NOTIFIED_MAX: Final = 500
"""Most members that one turn of the loop notifies of a change of their group."""
IDS: Final = wire_name(ConsumerIds, "ids")

_log = get_logger(__name__)


class ClientRequests:
    """Registers producers and consumers, and notifies consumers when their group changes."""

    def __init__(
        self,
        producers: Producers[Session],
        consumers: Consumers[Session],
        filters: ConsumerFilters,
        subscriptions: Subscriptions,
        groups: Groups,
        topics: Topics,
        clock: Clock,
        settings: BrokerSettings,
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self._filters = filters
        self._subscriptions = subscriptions
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self.notify_enabled = settings.notify_consumer_ids_changed_enable
        self._silence_ms_max = settings.clients.channel_expired_timeout
        self._empty_ms_max = settings.clients.subscription_expired_timeout
        self._bodies = RequestBodies(settings.bodies.limits)
        self._opaque = count()
        self._strangers_id = ("", "")
        self._strangers = OccasionalLog(self._log_strangers)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_ids,
        }

    def heartbeat(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """HEART_BEAT: register the client in its groups, with their subscriptions.

        It is answered once the name servers know the groups' retry topics: the client looks up their routes
        then.
        """
        beat = self._bodies.decode(Heartbeat, command, is_list=True)
        self._bodies.check_count("groups", [*beat.producers, *beat.consumers], command)
        for consumer in beat.consumers:
            self._bodies.check_count(
                f"subscriptions of group {consumer.group}", consumer.subscriptions, command
            )
        member = ConnectedMember(
            beat.client_id, command.language, command.version, self._clock.monotonic_ms(), session.user
        )
        for producer in beat.producers:
            self._producers.heartbeat(session, producer.group, member)
        if beat.producers and not self._producers.belongs(beat.client_id, session.user):
            self._strangers_id = beat.client_id, session.user
            self._strangers.add()
        weights = [GROUP_WEIGHT + len(consumer.subscriptions) for consumer in beat.consumers]
        parts = [beat.consumers[part] for part in slices(weights, SLICE_WEIGHT)]
        return self._register_consumers(session, command, member, parts, [])

    def _register_consumers(
        self,
        session: Session,
        command: Command,
        member: ConnectedMember,
        parts: list[list[ConsumerData]],
        creations: list[Change[TopicConfig]],
    ) -> Command | None:
        """Register the consumers of a heartbeat, one part in each turn of the loop; answer after the last."""
        if parts:
            created = [self._register_consumer(session, consumer, member) for consumer in parts[0]]
            creations = [*creations, *dict.fromkeys(filter(None, created))]
        if len(parts) > 1:
            again = partial(self._register_later, session, command, member, parts[1:], creations)
            asyncio.get_running_loop().call_soon(attempt, session, (command,), again)
            return None
        answer = response(command, ext_fields=fields(HeartbeatResponseHeader(supports_heartbeat_v2=False)))
        if command.is_oneway or not creations:
            return answer
        when_all_known(creations, partial(session.send, answer))
        return None

    def _register_later(
        self,
        session: Session,
        command: Command,
        member: ConnectedMember,
        parts: list[list[ConsumerData]],
        creations: list[Change[TopicConfig]],
    ) -> None:
        if session.closed:
            return
        answer = self._register_consumers(session, command, member, parts, creations)
        if answer is not None and not command.is_oneway:
            session.send(answer)

    def unregister(self, session: Session, command: Command, header: UnregisterClientHeader) -> Command:
        """UNREGISTER_CLIENT: remove the client from its groups."""
        if header.producer_group:
            self._producers.unregister(session, header.producer_group)
        if header.consumer_group:
            self._notify(self._consumers.unregister(session, header.consumer_group))
        return response(command)

    def check_config(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """CHECK_CLIENT_CONFIG: compile the filter of a subscription. Raises Refused if it is illegal."""
        check = self._bodies.decode(ClientConfigCheck, command)
        self._subscriptions.compile(check.subscription.expression_type, check.subscription.expression)
        return response(command)

    def consumer_ids(self, _session: Session, command: Command, header: ConsumerGroupHeader) -> Command:
        """GET_CONSUMER_LIST_BY_GROUP: the client ids of a group's members."""
        name = header.consumer_group
        group = self._consumers.find(name)
        if group is None or not group.members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
        ids = fastjson.Written(f"[{','.join(group.ids.values())}]")
        return response(command, body=fastjson.dumps({IDS: ids}).encode())

    def closed(self, session: Session) -> None:
        """Remove a closed connection's client from all groups, and notify their members."""
        self._producers.closed(session)
        for notify in self._consumers.closed(session):
            self._notify(notify)

    def close_silent(self) -> None:
        """Close the connections of clients without heartbeats for too long; call it every few seconds."""
        silent = self._producers.silent(self._silence_ms_max) | self._consumers.silent(self._silence_ms_max)
        for session in silent:
            session.close()
        self._consumers.remove_empty(self._empty_ms_max)

    def _register_consumer(
        self, session: Session, data: ConsumerData, member: ConnectedMember
    ) -> Change[TopicConfig] | None:
        """Register a consumer; return the creation of its retry topic unless that is published."""
        try:
            group = self._groups.find_or_create(data.group)
        except IllegalName:
            return None  # RocketMQ ignores such a group too
        if group is None:
            return None
        creation = None
        if group.retry_queue_count > 0:
            retry_topic = RETRY_PREFIX + data.group
            self._topics.find_or_create(retry_topic, group.retry_queue_count, optional=True)
            creation = self._topics.creation(retry_topic)
        self._notify(self._consumers.heartbeat(session, data, member))
        self._filters.register(data.group, data.subscriptions)
        return creation

    def _log_strangers(self, number: int) -> None:
        _log.warning(
            "%d heartbeats of producers under a client id of another user, the last under %.130r by user "
            "%.130r, who gets no replies to requests: give each client an instance name of its own",
            number,
            *self._strangers_id,
        )

    def _notify(self, notify: Notify[Session] | None) -> None:
        if notify is None or not self.notify_enabled:
            return
        group = self._groups.find(notify.group)
        if group is not None and not group.notify_consumer_ids_changed_enable:
            return
        notice = Command(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
            next(self._opaque) & 0x7FFF_FFFF,
            ONEWAY_FLAG,
            ext_fields=fields(ConsumerGroupHeader(notify.group)),
        )
        _send_to(notify.channels, encode(notice))


def _send_to(sessions: Sequence[Session], frame: bytes) -> None:
    """Send a frame to some of the sessions now, and to the others in the next turns of the loop."""
    for session in sessions[:NOTIFIED_MAX]:
        session.send(frame)
    if len(sessions) > NOTIFIED_MAX:
        asyncio.get_running_loop().call_soon(_send_to, sessions[NOTIFIED_MAX:], frame)
