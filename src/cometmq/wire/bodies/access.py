"""Users and their access control lists (acls), as operators send and get them.

All values are texts: ``cometmq.access`` has the types that a broker decides by.

RocketMQ: ``UserInfo.java``, ``AclInfo.java``.
"""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import field

from cometmq.errors import FormatError
from cometmq.format.java import fastjson
from cometmq.message import Buffer
from cometmq.wire.bodies.body import Body, from_plain, to_plain


class UserInfo(Body):
    """A user; None for what an update leaves as it is.

    Attributes:
        user_type: ``Super`` or ``Normal``.
        user_status: ``enable`` or ``disable``.
    """

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        """Return all but the password."""
        return f"UserInfo({self.username!r}, {self.user_type!r}, {self.user_status!r})"


class PolicyEntryInfo(Body):
    """What a user may do, or may not, with a resource.

    Attributes:
        resource: such as ``Topic:T``, ``Group:g*``, ``Cluster:c``, ``Topic:*`` or ``*``.
        actions: such as ``Pub``, ``Sub``, ``All``.
        source_ips: addresses, or networks as CIDR, that it holds for; None for all.
        decision: ``Allow`` or ``Deny``.
    """

    resource: str | None = None
    actions: list[str] = field(default_factory=list)
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body):
    """The policy of one type: ``Custom``, or ``Default``, which holds where the custom one says nothing."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] = field(default_factory=list)


class AclInfo(Body):
    """The policies of a subject, ``User:name``."""

    subject: str | None = None
    policies: list[PolicyInfo] = field(default_factory=list)


InfoT = TypeVar("InfoT", UserInfo, AclInfo)


def encode_list(items: Iterable[UserInfo] | Iterable[AclInfo]) -> bytes:
    """Encode the answer to AUTH_LIST_USER or AUTH_LIST_ACL; without items it has no body."""
    plain = [to_plain(item) for item in items]
    return fastjson.dumps(plain).encode() if plain else b""


def decode_list(item_type: type[InfoT], data: Buffer) -> list[InfoT]:
    """Decode the answer to AUTH_LIST_USER or AUTH_LIST_ACL. Raises FormatError."""
    items = fastjson.loads(data) if data else []
    if not isinstance(items, list):
        raise FormatError(f"body is not a list of {item_type.__name__}, but {items!r:.60}")
    return [from_plain(item_type, item) for item in items]
