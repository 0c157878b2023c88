"""Checks each request before anybody handles it: who sent it, and whether the sender may.

::

    request ─► a known, enabled user? ─► its signature? ─► what it needs ─► allowed, all of it? ─► handled
                        └──────────────────────┴─────────────────┴─────────────────────┴► refused, with a text

What was decided is remembered until users or policies change, so that an allowed send costs its signature and
one look into a table.

RocketMQ: ``AuthenticationPipeline.java``, ``AuthorizationPipeline.java``; the texts are those of
``DefaultAuthenticationHandler.java`` and ``AclAuthorizationHandler.java``.
"""

import hmac
from collections.abc import Collection
from typing import Final, NamedTuple

from cometmq.access.decision import Need, decide
from cometmq.access.directory import Directory
from cometmq.access.needs import Needs
from cometmq.access.users import User
from cometmq.errors import CometMQError
from cometmq.wire.acl import ACCESS_KEY, SIGNATURE, signature_of, signed_content
from cometmq.wire.command import Command

REMEMBERED_MAX: Final = 10_000
"""Most decisions that are remembered; with one more all are forgotten."""

NAMELESS: Final = "username cannot be null."
"""The refusal of a request without a user."""


class Rules(NamedTuple):
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
    """Checks requests.

    Attributes:
        refused: number of requests that were refused, for a wrong signature or user …
        forbidden: … and for a missing permission.
    """

    def __init__(self, directory: Directory, needs: Needs, rules: Rules) -> None:
        self.refused = self.forbidden = 0
        self._directory = directory
        self._needs = needs
        self._rules = rules
        self._remembered: dict[tuple[object, ...], str | None] = {}
        directory.on_change.append(self._remembered.clear)

    def refusal(self, command: Command, address: str) -> str | None:
        """Return why a request from an IP address is refused; None if it is to be handled."""
        name = command.ext_fields.get(ACCESS_KEY)
        user = None
        if name or command.code not in self._rules.unsigned:
            user = self._directory.find(name) if name else None
            refusal = _unauthentic(command, name, user)
            if refusal is not None:
                self.refused += 1
                return refusal
        if not self._rules.authorizes or command.code in self._rules.unauthorized:
            return None
        refusal = NAMELESS if user is None else self._forbidden(command, user, address)
        self.forbidden += refusal is not None
        return refusal

    def _forbidden(self, command: Command, user: User, address: str) -> str | None:
        if user.is_super:
            return None
        names = self._needs.key(command)
        if names is None:
            return self._decided(command, user, address)
        key = (user.name, command.code, address, *names)
        if key not in self._remembered:
            self._remember(key, self._decided(command, user, address))
        return self._remembered[key]

    def _decided(self, command: Command, user: User, address: str) -> str | None:
        try:
            needs = self._needs.of(command)
        except CometMQError as error:
            return f"parse authorization context error. {error}"
        for need in needs:
            if (refusal := self._decision(user, need, address)) is not None:
                return refusal
        return None

    def _decision(self, user: User, need: Need, address: str) -> str | None:
        key = (user.name, need, address)
        if key not in self._remembered:
            acl = self._directory.acl(user.name)
            self._remember(key, decide(user, acl, need, address).refusal)
        return self._remembered[key]

    def _remember(self, key: tuple[object, ...], refusal: str | None) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[key] = refusal


def _unauthentic(command: Command, name: str | None, user: User | None) -> str | None:
    """Return why a request is not one of the user that it names; None if it is."""
    if not name:
        return NAMELESS
    if user is None:
        return f"User:{name} is not found."
    if not user.is_enabled:
        return f"User:{name} is disabled."
    content = signed_content(command.ext_fields, command.body, command.version)
    signature = command.ext_fields.get(SIGNATURE, "")
    # The time of the comparison must not tell how much of a guess is right.
    if not hmac.compare_digest(
        signature.encode(errors="replace"), signature_of(user.password, content).encode()
    ):
        return "check signature failed."
    return None
