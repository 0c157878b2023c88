"""Who calls an rpc, and whether the caller may: by the users and policies of the brokers.

A call names its user in the metadata ``authorization``, with a signature of ``x-mq-date-time``::

    MQv2-HMAC-SHA1 Credential=NAME/REGION/SERVICE, SignedHeaders=x-mq-date-time, Signature=HEX

The signature covers neither the request nor, as clients disagree on its format, a time that could be checked:
whoever reads a call can send others in its user's name, so only TLS protects.

Source: RocketMQ ``DefaultAuthenticationContextBuilder.java``, ``DefaultAuthorizationContextBuilder.java``.
"""

import asyncio
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from cometmq.access.decision import Permission, decide
from cometmq.access.failures import FAILURES_MAX, Failures
from cometmq.access.infos import SUBJECT_PREFIX, acl_of, user_of
from cometmq.access.policies import Acl
from cometmq.access.users import User
from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import CometMQError
from cometmq.format.layout import RETRY_PREFIX
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.transport import Call
from cometmq.wire.bodies.access import AclInfo, UserInfo, decode_list
from cometmq.wire.bodies.body import decode
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers.access import AclFilterHeader, UserHeader
from cometmq.wire.requests import Action, Resource

FRESH_S: Final = 60.0
"""How long a user and its policies are used before a broker is asked again."""
USERS_MAX: Final = 1_000
"""Most users that are kept; with one more all are asked for anew."""
NAME_LENGTH_MAX: Final = 128
ASKED_MAX: Final = 8
"""Most users that brokers are asked for at a time; calls of others wait."""

_AUTHORIZATION: Final = re.compile(
    r"MQv2-HMAC-SHA1\s+Credential=([^,/]+)[^,]*,\s*SignedHeaders=[^,]*,\s*Signature=([0-9a-fA-F]{40})"
)
_SIGNED: Final = "x-mq-date-time"


Admit = Callable[[str, Any, Call], Awaitable[str]]
"""Checks a call of the rpc with this name, and its request; for Telemetry that is the settings.

Returns the user who has signed it; empty if calls need no signature. Raises Failure to refuse it.
"""


async def admit_all(_rpc: str, _request: Any, _call: Call) -> str:
    """Admit all calls; they are nobody's."""
    return ""


class _Known(NamedTuple):
    """A user as a broker knows it, None if it does not, and until when that is used."""

    user: User | None
    acl: Acl | None
    until: float


class ClientAccess:
    """Checks calls.

    Args:
        cluster: asks brokers for users, as a super user.
        now_ms: returns a monotonic time, in ms.
    """

    def __init__(self, cluster: ClusterAdmin, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._known: dict[str, _Known] = {}
        self._asking = asyncio.Semaphore(ASKED_MAX)
        self._failures = Failures(FAILURES_MAX, now_ms)

    async def check(self, rpc: str, request: Any, call: Call) -> str:
        """Return the user who has signed a call. Raises Failure unless that may do what it asks for."""
        user, acl = await self.caller(call)
        for need in needs_of(rpc, request):
            ruling = decide(user, acl, need, _address_of(call))
            if ruling.refusal is not None:
                raise Failure(pb.UNAUTHORIZED, ruling.refusal)
        return user.name

    async def caller(self, call: Call) -> tuple[User, Acl | None]:
        """Return the user who has signed a call, and its policies.

        Raises Failure if no known user has, or no broker can be asked; a call from an address that has sent
        too many such ones loses its connection, too.
        """
        try:
            return await self._authentic(call)
        except _Unauthentic as error:
            address = _address_of(call)
            self._failures.add(address)
            if self._failures.is_suspect(address):
                call.hang_up("too many calls from its address were not signed by a user that is known")
            raise Failure(pb.UNAUTHORIZED, str(error)) from None

    async def _authentic(self, call: Call) -> tuple[User, Acl | None]:
        """Return the user who has signed a call. Raises _Unauthentic; Failure if no broker can be asked."""
        match = _AUTHORIZATION.fullmatch(call.metadata.get("authorization", "").strip())
        if match is None or len(match[1]) > NAME_LENGTH_MAX:
            raise _Unauthentic("the call is not signed: give the client credentials")
        name, signature = match[1], match[2].lower()
        known = self._fresh(name) or await self._look_up(name, _address_of(call))
        if known.user is None:
            raise _Unauthentic(f"User:{name} is not found.")
        if not known.user.is_enabled:
            raise _Unauthentic(f"User:{name} is disabled.")
        signed = call.metadata.get(_SIGNED, "").encode()
        expected = hmac.new(known.user.password.encode(), signed, hashlib.sha1).hexdigest()
        if not hmac.compare_digest(expected, signature):
            raise _Unauthentic("check signature failed.")
        return known.user, known.acl

    def _fresh(self, name: str) -> _Known | None:
        """Return what is known of a user, unless it is too old."""
        known = self._known.get(name)
        return None if known is None or known.until < asyncio.get_running_loop().time() else known

    async def _look_up(self, name: str, address: str) -> _Known:
        """Return what a broker knows of a user; nobody new is asked for on behalf of who only guesses."""
        async with self._asking:
            if (known := self._fresh(name)) is not None:
                return known
            if name not in self._known and self._failures.is_suspect(address):
                raise _Unauthentic(f"{address} has sent too many calls of no known user: wait a minute")
            return await self._ask(name)

    async def _ask(self, name: str) -> _Known:
        """Ask a broker for a user and its policies, and keep what it knows. Raises Failure."""
        try:
            address = min((await self._cluster.masters()).values())
            user, acls = await asyncio.gather(
                self._cluster.ask(address, RequestCode.AUTH_GET_USER, UserHeader(name)),
                self._cluster.ask(address, RequestCode.AUTH_LIST_ACL, AclFilterHeader(SUBJECT_PREFIX + name)),
            )
        except CometMQError as error:
            raise Failure(
                pb.INTERNAL_SERVER_ERROR,
                f"no broker says who {name!r} is; the proxy's credentials must be a super user's: {error}",
            ) from None
        found = user_of(decode(UserInfo, user.body)) if user.body else None
        acl = next(
            (acl_of(one) for one in decode_list(AclInfo, acls.body) if one.subject == SUBJECT_PREFIX + name),
            None,
        )
        if len(self._known) >= USERS_MAX:
            self._known.clear()
        until = asyncio.get_running_loop().time() + FRESH_S
        known = self._known[name] = _Known(found, acl, until)
        return known


def _address_of(call: Call) -> str:
    return parse_address(call.peer)[0]


class _Unauthentic(Exception):
    """A call is not that of the user whom it names."""


def needs_of(rpc: str, request: Any) -> list[Permission]:
    """Return the permissions that a request of an rpc needs; for Telemetry the request is the settings."""
    return list(_NEEDS[rpc](request))


def _on_topic(name: str, *actions: Action) -> Permission:
    """Return a permission on a topic; a retry topic stands for its group."""
    if name.startswith(RETRY_PREFIX):
        return Permission(Resource.GROUP, name.removeprefix(RETRY_PREFIX), (Action.SUB,))
    return Permission(Resource.TOPIC, name, actions)


def _on_group(name: str) -> Permission:
    return Permission(Resource.GROUP, name, (Action.SUB,))


def _of_send(request: pb.SendMessageRequest) -> Iterator[Permission]:
    for name in dict.fromkeys(message.topic.name for message in request.messages):
        yield _on_topic(name, Action.PUB)


def _of_publisher(request: Any) -> Iterable[Permission]:
    return [_on_topic(request.topic.name, Action.PUB)]


def _of_consumer(request: Any) -> Iterable[Permission]:
    return [_on_group(request.group.name), _on_topic(request.topic.name, Action.SUB)]


def _of_queue_consumer(request: Any) -> Iterable[Permission]:
    return [_on_group(request.group.name), _on_topic(request.message_queue.topic.name, Action.SUB)]


def _of_offset(request: pb.QueryOffsetRequest) -> Iterable[Permission]:
    return [_on_topic(request.message_queue.topic.name, Action.SUB, Action.GET)]


def _of_route(request: pb.QueryRouteRequest) -> Iterable[Permission]:
    return [_on_topic(request.topic.name, Action.PUB, Action.SUB)]


def _of_member(request: Any) -> Iterator[Permission]:
    if request.HasField("group"):
        yield _on_group(request.group.name)


def _of_settings(settings: pb.Settings) -> Iterator[Permission]:
    for topic in settings.publishing.topics:
        yield _on_topic(topic.name, Action.PUB)
    if settings.HasField("subscription"):
        yield _on_group(settings.subscription.group.name)
        for entry in settings.subscription.subscriptions:
            yield _on_topic(entry.topic.name, Action.SUB)


_NEEDS: Final[Mapping[str, Callable[[Any], Iterable[Permission]]]] = {
    "QueryRoute": _of_route,
    "QueryAssignment": _of_consumer,
    "SendMessage": _of_send,
    "RecallMessage": _of_publisher,
    "EndTransaction": _of_publisher,
    "ReceiveMessage": _of_queue_consumer,
    "AckMessage": _of_consumer,
    "ChangeInvisibleDuration": _of_consumer,
    "ForwardMessageToDeadLetterQueue": _of_consumer,
    "PullMessage": _of_queue_consumer,
    "GetOffset": _of_queue_consumer,
    "UpdateOffset": _of_queue_consumer,
    "QueryOffset": _of_offset,
    "Telemetry": _of_settings,
    "Heartbeat": _of_member,
    "NotifyClientTermination": _of_member,
}
"""What the rpcs need; RocketMQ's proxy checks of ChangeInvisibleDuration only the group."""
