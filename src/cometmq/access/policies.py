"""Policies: what a user may do, or may not, with which resources, from which addresses.

A user's access control list (acl) has a *custom* and a *default* policy, of entries each::

    Topic:orders*   Pub, Sub   from 10.0.0.0/8   Allow
    └ a pattern     └ actions  └ sources         └ decision

RocketMQ: ``Resource.java``, ``Policy.java``, ``PolicyEntry.java``, and for the texts of refusals
``AuthorizationMetadataManagerImpl.java``.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, NamedTuple, Self

from cometmq.errors import AccessError
from cometmq.format.layout import RETRY_PREFIX
from cometmq.wire.requests import Action, Resource

ANY: Final = "*"
"""The pattern of all resources, and the name that stands for all of a kind."""

_KINDS: Final = {kind.value.lower(): kind for kind in Resource}
_ACTIONS: Final = {action.value.lower(): action for action in Action}

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Decision(StrEnum):
    """What an entry says of the requests that it is for."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(StrEnum):
    """Which of a user's two policies; the default one decides where the custom one has no entry."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class Pattern(NamedTuple):
    """The resources that an entry is for.

    Attributes:
        kind: their kind; None for all kinds.
        name: their name, or the beginning of it.
        is_prefix: whether ``name`` is only the beginning.
    """

    kind: Resource | None
    name: str
    is_prefix: bool

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse ``*``, ``Topic:name``, ``Topic:begin*`` or ``Topic:*``. Raises AccessError.

        Names that nothing can have are parsed, too: ``access.faults`` finds them.
        """
        if text == ANY:
            return cls(None, "", is_prefix=True)
        kind, separator, name = (text or "").partition(":")
        if not separator or kind.lower() not in _KINDS:
            raise AccessError("The resource is null.")
        resource = _KINDS[kind.lower()]
        if resource is Resource.GROUP:
            name = name.removeprefix(RETRY_PREFIX)
        return cls(resource, name.removesuffix(ANY), is_prefix=name.endswith(ANY))

    def __str__(self) -> str:
        if self.kind is None:
            return ANY
        return f"{self.kind.value}:{self.name}{ANY if self.is_prefix else ''}"

    def matches(self, kind: Resource, name: str) -> bool:
        """Return whether it is for a resource."""
        if self.kind is None:
            return True
        if self.kind is not kind:
            return False
        return name.startswith(self.name) if self.is_prefix else name == self.name

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Its place among the patterns that match one resource: the narrowest has the least."""
        return self.kind is None, self.is_prefix, -len(self.name)


class PolicyEntry(NamedTuple):
    """An entry of a policy.

    Attributes:
        sources: the networks of the senders that it is for; all without any.
    """

    resource: Pattern
    actions: tuple[Action, ...]
    sources: tuple[Network, ...]
    decision: Decision

    @classmethod
    def parse(
        cls,
        resource: str | None,
        actions: Sequence[str],
        sources: Sequence[str] | None,
        decision: str | None,
    ) -> Self:
        """Parse an entry as operators send it; unknown actions are left out. Raises AccessError."""
        pattern = Pattern.parse(resource)
        if any(action.lower() == "any" for action in actions):
            raise AccessError("The actions can not be Any.")
        known = tuple(dict.fromkeys(_ACTIONS[one.lower()] for one in actions if one.lower() in _ACTIONS))
        if not known:
            raise AccessError("The actions is empty.")
        networks = tuple(_network(source) for source in sources or ())
        for one in Decision:
            if one.value.lower() == (decision or "").lower():
                return cls(pattern, known, networks, one)
        raise AccessError("The decision is null or illegal.")

    @property
    def source_texts(self) -> list[str]:
        """The sources as operators write them: addresses, and networks as CIDR."""
        return [
            str(one.network_address if one.prefixlen == one.max_prefixlen else one) for one in self.sources
        ]

    def is_for(self, kind: Resource, name: str, actions: Iterable[Action], address: Address) -> bool:
        """Return whether the entry is for any of the actions on a resource, requested from an address."""
        return (
            self.resource.matches(kind, name)
            and (Action.ALL in self.actions or any(action in self.actions for action in actions))
            and (not self.sources or any(address in source for source in self.sources))
        )


class Acl(NamedTuple):
    """The policies of a user."""

    user: str
    custom: tuple[PolicyEntry, ...] = ()
    default: tuple[PolicyEntry, ...] = ()

    def entries(self, kind: PolicyType) -> tuple[PolicyEntry, ...]:
        """Return the entries of one policy."""
        return self.custom if kind is PolicyType.CUSTOM else self.default

    def merged(self, kind: PolicyType, entries: Iterable[PolicyEntry]) -> Self:
        """Return the acl with these entries in a policy, each in place of the one for the same resource."""
        merged = {entry.resource: entry for entry in self.entries(kind)}
        merged |= {entry.resource: entry for entry in entries}
        return self._with(kind, merged.values())

    def without(self, kind: PolicyType, resource: Pattern) -> Self:
        """Return the acl without a policy's entry for a resource."""
        return self._with(kind, (entry for entry in self.entries(kind) if entry.resource != resource))

    def _with(self, kind: PolicyType, entries: Iterable[PolicyEntry]) -> Self:
        kept = tuple(entries)
        return self._replace(custom=kept) if kind is PolicyType.CUSTOM else self._replace(default=kept)


def _network(text: str) -> Network:
    """Parse an address, or a network as CIDR. Raises AccessError."""
    if not text.strip():
        raise AccessError("The source ip is empty.")
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise AccessError("The source ip is invalid.") from None
