"""Checks each request before anybody handles it: who sent it, and whether the sender may.

::

    request ─► a known, enabled user? ─► its signature? ─► what it needs ─► allowed, all of it? ─► handled
                        └──────────────────────┴─────────────────┴─────────────────────┴► refused, with a text

What was decided is remembered until users or policies change, so that an allowed send costs its signature and
one look into a table.

RocketMQ: ``AuthenticationPipeline.java``, ``AuthorizationPipeline.java``; the texts are those of
``DefaultAuthenticationHandler.java`` and ``AclAuthorizationHandler.java``.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from cometmq.access.decision import Permission, decide
from cometmq.access.directory import Directory
from cometmq.access.failures import Failures
from cometmq.access.needs import Needs
from cometmq.access.repeats import Repeats
from cometmq.access.users import User
from cometmq.errors import CometMQError
from cometmq.wire.acl import ACCESS_KEY, SIGNATURE, signed_content, signing_key
from cometmq.wire.command import Command

REMEMBERED_MAX: Final = 10_000
"""Most decisions that are remembered; with one more all are forgotten."""
NAMES_LENGTH_MAX: Final = 512
"""Most characters of names for which a decision is remembered: longer ones would fill the memory."""

NAMELESS: Final = "username cannot be null."
"""The refusal of a request without a user."""


class GuardRules(NamedTuple):
    """What is checked.

    Attributes:
        authorizes: whether permissions are checked; signatures always are.
        unsigned: the codes of requests that need no signature; a signature that they have must be right, and
            permissions are those of its user.
        unauthorized: the codes of requests that need no permission.
    """

    authorizes: bool = True
    unsigned: Collection[int] = frozenset()
    unauthorized: Collection[int] = frozenset()


class Guard:
    """Checks requests (a ``net.guarded.RequestCheck``).

    Args:
        failures: counts requests whose sender is not known.

    Attributes:
        repeats: what it has allowed, for requests that are like them.
    """

    def __init__(self, directory: Directory, needs: Needs, rules: GuardRules, failures: Failures) -> None:
        self._failures = failures
        self._directory = directory
        self._needs = needs
        self._rules = rules
        self._remembered: dict[tuple[object, ...], str | None] = {}
        self.repeats = Repeats(directory)
        directory.on_change.append(self._remembered.clear)

    def refusal(self, command: Command, address: str) -> str | None:
        """Return why a request from an IP address is refused; None if it is to be handled."""
        name = command.ext_fields.get(ACCESS_KEY)
        user = None
        if name or command.code not in self._rules.unsigned:
            user = self._directory.find(name) if name else None
            refusal = _unauthentic(command, name, user)
            if refusal is not None:
                self._failures.add(address)
                return refusal
        if not self._rules.authorizes or command.code in self._rules.unauthorized:
            return None
        return NAMELESS if user is None else self._forbidden(command, user, address)

    def refusal_of_stored(self, command: Command, address: str, topic: str) -> str | None:
        """Return why a request that names a message by its place is refused, now that its topic is known."""
        if self.may_all(command):
            return None
        user = self._directory.find(command.ext_fields.get(ACCESS_KEY, ""))
        if user is None:
            return NAMELESS
        return self._first_refusal(user, self._needs.of_stored(command, topic), address)

    def may_all(self, command: Command) -> bool:
        """Return whether permissions do not matter to a request that was not refused."""
        if not self._rules.authorizes or command.code in self._rules.unauthorized:
            return True
        user = self._directory.find(command.ext_fields.get(ACCESS_KEY, ""))
        return user is not None and user.is_super

    def may(self, user: str, code: int, need: Permission, address: str) -> bool:
        """Return whether a user at an address may do what a request of this code would need."""
        if not self._rules.authorizes or code in self._rules.unauthorized:
            return True
        known = self._directory.find(user)
        return known is not None and self._decision(known, need, address) is None

    def may_receive(self, user: str, command: Command, topic: str, address: str) -> bool:
        """Return whether a user at an address could have sent a request for a stored message of a topic."""
        if not self._rules.authorizes or command.code in self._rules.unauthorized:
            return True
        known = self._directory.find(user)
        needs = (*self._needs.of(command), *self._needs.of_stored(command, topic))
        return known is not None and self._first_refusal(known, needs, address) is None

    def is_signed(self, command: Command) -> bool:
        """Return whether a known, enabled user has signed a request."""
        name = command.ext_fields.get(ACCESS_KEY)
        return _unauthentic(command, name, self._directory.find(name) if name else None) is None

    def is_suspect(self, address: str) -> bool:
        """Return whether an IP address has sent more requests of nobody that is known than it may."""
        return self._failures.is_suspect(address)

    def _forbidden(self, command: Command, user: User, address: str) -> str | None:
        if user.is_super:
            return None
        names = self._needs.key(command)
        if names is None:
            return self._decided(command, user, address)
        key = (user.name, command.code, address, *names)
        if key in self._remembered:
            return self._remembered[key]
        return self._remember(key, names, self._decided(command, user, address))

    def _decided(self, command: Command, user: User, address: str) -> str | None:
        try:
            needs = self._needs.of(command)
        except CometMQError as error:
            return f"parse authorization context error. {error}"
        return self._first_refusal(user, needs, address)

    def _first_refusal(self, user: User, needs: Iterable[Permission], address: str) -> str | None:
        for need in needs:
            if (refusal := self._decision(user, need, address)) is not None:
                return refusal
        return None

    def _decision(self, user: User, need: Permission, address: str) -> str | None:
        key = (user.name, need, address)
        if key in self._remembered:
            return self._remembered[key]
        acl = self._directory.acl(user.name)
        return self._remember(key, (need.name,), decide(user, acl, need, address).refusal)

    def _remember(
        self, key: tuple[object, ...], names: Iterable[str | None], refusal: str | None
    ) -> str | None:
        """Remember a decision by its key, which has these names from a peer; return it."""
        if sum(len(name) for name in names if name) <= NAMES_LENGTH_MAX:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = refusal
        return refusal


def _unauthentic(command: Command, name: str | None, user: User | None) -> str | None:
    """Return why a request is not one of the user that it names; None if it is."""
    if not name:
        return NAMELESS
    if user is None:
        return f"User:{name} is not found."
    if not user.is_enabled:
        return f"User:{name} is disabled."
    content = signed_content(command.ext_fields, command.body, command.version)
    signature = command.ext_fields.get(SIGNATURE, "").encode(errors="replace")
    if signing_key(user.password).has_signed(signature, content):
        return None
    return "check signature failed."
