"""Who may use a name server: with users, requests must be signed, and allowed to the users who sign.

RocketMQ's name server has no authentication: whoever reaches it can take a broker's place in the routes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from cometmq.access.directory import Directory
from cometmq.access.failures import FAILURES_MAX, Failures
from cometmq.access.guard import NAMELESS, Guard, GuardRules
from cometmq.access.needs import DecodeBody, Needs
from cometmq.namesrv.user_files import UserFiles
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.requests import TO_NAME_SERVERS

ROUTES: Final = frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC})
"""The requests that need no signature unless routes are closed."""

FROM_FILES: Final = " (by this name server, which rereads its file of users every few seconds)"
"""Ends each refusal by users of files: the brokers may know a change of them sooner."""


class NameServerAccess(NamedTuple):
    """Who may use a name server. Without users everybody may do everything.

    Attributes:
        users_path: a broker's file of users (``user_files``); None for none.
        supers: credentials of further users, who may do everything.
        closed_routes: whether a topic's route is only for users with a permission on the topic.
        cluster: the name of the cluster in policies: ``Cluster:NAME``.
        failed_signatures_max: requests of an IP address in a minute that no user has signed, before each
            further one closes its connection; 0 for any number.
        insecure: whether it may listen where other machines reach it without users.
        directory: the users of a broker of the same process, in place of those of files.
    """

    users_path: Path | None = None
    supers: tuple[Credentials, ...] = ()
    closed_routes: bool = False
    cluster: str = "DefaultCluster"
    failed_signatures_max: int = FAILURES_MAX
    insecure: bool = False
    directory: Directory | None = None

    @property
    def has_users(self) -> bool:
        """Whether requests must be signed."""
        return self.directory is not None or self.users_path is not None or bool(self.supers)


FOR_ALL: Final = NameServerAccess()
"""Everybody who reaches the name server may do everything; only programs of this machine do."""


class NameServerGuard:
    """Checks the requests to a name server that has users (a ``net.guarded.RequestCheck``).

    Raises SettingsError for files of no use.

    Args:
        now_ms: returns a monotonic time, in ms.

    """

    def __init__(self, access: NameServerAccess, decode: DecodeBody[Any], now_ms: Callable[[], int]) -> None:
        directory = access.directory
        self._files: UserFiles | None = None
        if directory is None:
            self._files = UserFiles(access.users_path, access.supers)
            directory = self._files.directory
        self._open = frozenset[int]() if access.closed_routes else ROUTES
        self._guard = Guard(
            directory,
            Needs(TO_NAME_SERVERS, access.cluster, decode),
            GuardRules(),
            Failures(access.failed_signatures_max, now_ms),
        )

    def refusal(self, command: Command, address: str) -> str | None:
        """Return why a request from an IP address is refused; None if it is to be handled.

        Whoever signs requests for open routes may be a user of the brokers only, so nothing is checked then.
        """
        if command.code in self._open:
            return None
        refusal = self._guard.refusal(command, address)
        return refusal if self._files is None or refusal in (None, NAMELESS) else f"{refusal}{FROM_FILES}"

    def refresh(self) -> None:
        """Read the files of users again if they have changed."""
        if self._files is not None:
            self._files.refresh()

    def is_signed(self, command: Command) -> bool:
        """Return whether a known, enabled user has signed a request."""
        return self._guard.is_signed(command)

    def is_suspect(self, address: str) -> bool:
        """Return whether an IP address has sent more requests that no user has signed than it may."""
        return self._guard.is_suspect(address)
