"""The guard of a broker, by its settings, and the server whose requests it checks."""

from cometmq.access.decision import Permission
from cometmq.access.directory import Directory
from cometmq.access.failures import Failures
from cometmq.access.guard import Guard, GuardRules
from cometmq.access.needs import Needs
from cometmq.broker.auth_settings import AuthSettings
from cometmq.broker.door import Door
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.producers import ConnectedMember
from cometmq.io.clock import Clock
from cometmq.net.guarded import Guarded
from cometmq.net.newcomers import NewcomerLimits
from cometmq.net.server import RequestHandler, Server, Session
from cometmq.wire.bodies import Heartbeat, TopicConfigs
from cometmq.wire.bodies.body import BodyType
from cometmq.wire.bodies.group import GroupConfigList
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import HEADER_LENGTH_MAX, PREFIX_SIZE, Command
from cometmq.wire.requests import TO_BROKERS, Action, Resource


def guard_of(directory: Directory, settings: BrokerSettings, clock: Clock) -> Guard:
    """Build the guard that checks a broker's requests by a directory of users.

    Args:
        clock: measures the time in which failures are counted.
    """
    own, bodies = settings.auth, RequestBodies(settings.bodies.limits)

    def decode(body_type: type[BodyType], command: Command) -> BodyType:
        is_list = body_type in (Heartbeat, TopicConfigs, GroupConfigList)
        return bodies.decode(body_type, command, is_list=is_list)

    return Guard(
        directory,
        Needs(TO_BROKERS, settings.identity.broker_cluster_name, decode),
        GuardRules(own.authorization_enabled, own.unsigned_codes, own.allowed_codes),
        Failures(own.failed_signatures_max, clock.monotonic_ms),
    )


def newcomer_limits(settings: AuthSettings, message_size_max: int) -> NewcomerLimits:
    """Return the limits of connections on which no known user has signed a request yet.

    Args:
        message_size_max: bytes of the largest body of a message, which may be the first that a client sends.
    """
    longest = PREFIX_SIZE + HEADER_LENGTH_MAX + message_size_max
    return NewcomerLimits(
        settings.unsigned_frame_bytes_max or longest,
        settings.unsigned_frame_timeout_ms,
        settings.unsigned_requests_max,
        settings.unsigned_connections_max,
    )


def may_be_asked(guard: Guard | None, session: Session, member: ConnectedMember, topic: str) -> bool:
    """Return whether a producer may be asked for a transaction of a topic: with it comes the half message."""
    need = Permission(Resource.TOPIC, topic, (Action.PUB,))
    return guard is None or guard.may(member.user, RequestCode.END_TRANSACTION, need, session.peer[0])


def serve(server: Server, handler: RequestHandler, door: Door | None, guard: Guard | None) -> None:
    """Begin to pass a server's requests to its handlers, if any in bulk, behind a guard if there is one."""
    if guard is None:
        server.handler, server.bulk = handler, door
    else:
        server.handler = Guarded(handler, guard)
        server.bulk = None if door is None else door.guarded_by(guard)
