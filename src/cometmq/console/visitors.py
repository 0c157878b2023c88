"""Those who visit the console: one for all without a login, else one for each that has signed in.

A visitor that signed in has connections of its own, and signs each request with the user's secret: the
brokers decide what it may do. Secrets are only in memory.
"""

import secrets
from collections.abc import Callable
from typing import Final, NamedTuple, Self

from cometmq.admin.topics import TopicAdmin
from cometmq.client.answer import ask_broker
from cometmq.console.settings import ConsoleSettings
from cometmq.errors import AccessError, NetworkError, RemoteError, SettingsError
from cometmq.net.client import Connections
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

VISITORS_MAX: Final = 100
"""Most visitors that are signed in; one more signs out the one that has been idle for the longest time."""
VISITORS_OF_USER_MAX: Final = 10
"""Most of them of one user, so that nobody signs out others by signing in often."""
IDLE_MS_MAX: Final = 8 * 3_600_000
"""A visitor that is idle for longer must sign in again."""
FAILED_MAX: Final = 20
"""Most failed sign-ins in a minute: brokers count forged requests, and suspect an address with many."""
CHECKED_MS: Final = 60_000
"""How long a broker that refused a request without a signature is not sent another, which it counts."""
NO_RIGHT: Final = "has no permission"
"""What a broker writes to a user whose signature is right, and who may not do what was asked for."""


class Visitor(NamedTuple):
    """One who visits the console.

    Attributes:
        token: its cookie; empty for the visitor without a login.
        form_token: in each form, so that only the console's own pages can send one.
        user: the name of the user; empty without a login.
        cluster: its connections to the cluster; None in a console of a store directory.
    """

    token: str
    form_token: str
    user: str
    cluster: TopicAdmin | None


class Visitors:
    """The visitors of a console; open it with ``async with``.

    Args:
        now_ms: returns the monotonic time in ms.
    """

    def __init__(self, settings: ConsoleSettings, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._known: dict[str, Visitor] = {}
        self._seen_ms: dict[str, int] = {}
        self._failed_ms: list[int] = []
        self._checked_ms: dict[str, int] = {}  # when brokers have refused strangers, by their addresses

    async def __aenter__(self) -> Self:
        """Open the connections of the visitor without a login."""
        settings = self._settings
        if not settings.login:
            cluster = None
            if settings.store is None:
                cluster = TopicAdmin(
                    settings.name_servers, credentials=settings.credentials, tls=settings.tls
                )
                await cluster.__aenter__()
            self._add(Visitor("", secrets.token_urlsafe(), "", cluster))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections of all visitors."""
        for visitor in list(self._known.values()):
            await self.sign_out(visitor)

    async def find(self, token: str) -> Visitor | None:
        """Return the visitor with this cookie; None for one that must sign in."""
        if not self._settings.login:
            return self._known[""]
        visitor = self._known.get(token)
        if visitor is not None and self._now_ms() - self._seen_ms[token] > IDLE_MS_MAX:
            await self.sign_out(visitor)
            return None
        if visitor is not None:
            self._seen_ms[token] = self._now_ms()
        return visitor

    def knows(self, visitor: Visitor) -> bool:
        """Return whether a visitor has not signed out."""
        return self._known.get(visitor.token) is visitor

    async def sign_in(self, user: str, secret: str) -> Visitor:
        """Sign in a user of the cluster.

        Raises:
            AccessError: no broker knows the user with this secret, or one does not check signatures.
            NoRoute, NetworkError: no broker answers.
        """
        if not user or not secret:
            raise AccessError("give the name of a user of the cluster, and its secret")
        self._failed_ms = [time for time in self._failed_ms if self._now_ms() - time < 60_000]
        if len(self._failed_ms) >= FAILED_MAX:
            raise AccessError(f"{FAILED_MAX} sign-ins have failed in the last minute: wait for one")
        cluster = TopicAdmin(
            self._settings.name_servers, credentials=Credentials(user, secret), tls=self._settings.tls
        )
        await cluster.__aenter__()
        try:
            await self._check_user(cluster, user)
        except BaseException:
            self._failed_ms.append(self._now_ms())
            await cluster.__aexit__()
            raise
        await self._make_room(user)
        visitor = Visitor(secrets.token_urlsafe(), secrets.token_urlsafe(), user, cluster)
        self._add(visitor)
        return visitor

    async def sign_out(self, visitor: Visitor) -> None:
        """Forget a visitor, and close its connections."""
        if self._known.pop(visitor.token, None) is None:
            return  # it has signed out by another request, or others needed its place
        del self._seen_ms[visitor.token]
        if visitor.cluster is not None:
            await visitor.cluster.__aexit__()

    async def _check_user(self, cluster: TopicAdmin, user: str) -> None:
        """Check that a broker knows the user, and that none takes requests of strangers."""
        try:
            masters = await cluster.masters()
        except RemoteError as error:  # a name server that checks signatures, too
            raise AccessError(f"user {user} cannot sign in: {error}") from None
        except SettingsError as error:
            raise AccessError(f"user {user} cannot sign in: {error}") from None
        refusals: list[str] = []
        for name, address in masters.items():
            try:
                await self._check_broker(cluster, name, address)
                await cluster.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
            except (RemoteError, NetworkError) as error:
                if NO_RIGHT not in str(error):
                    refusals.append(f"{name}: {error}")
        if len(refusals) == len(masters):
            raise AccessError(f"user {user} cannot sign in: {'; '.join(refusals)}")

    async def _check_broker(self, cluster: TopicAdmin, name: str, address: str) -> None:
        """Check that a broker refuses strangers, unless it did a moment ago."""
        now_ms = self._now_ms()
        self._checked_ms = {one: at for one, at in self._checked_ms.items() if now_ms - at < CHECKED_MS}
        if address in self._checked_ms:
            return
        if await _answers_strangers(cluster, address):
            raise AccessError(
                f"broker {name} at {address} does not check signatures, so --login would admit anyone: "
                "set authenticationEnabled = true there, or start the console without --login"
            )
        self._checked_ms[address] = now_ms

    async def _make_room(self, user: str) -> None:
        """Sign out those that are idle for the longest time, if one more would be too many.

        Of a user who has all the places that one may have, they are its own.
        """
        by_idleness = sorted(self._known.values(), key=lambda one: self._seen_ms[one.token])
        own = [one for one in by_idleness if one.user == user]
        leaving, most = by_idleness, VISITORS_MAX
        if len(own) >= VISITORS_OF_USER_MAX:
            leaving, most = own, VISITORS_OF_USER_MAX
        for one in leaving[: max(len(leaving) + 1 - most, 0)]:
            await self.sign_out(one)

    def _add(self, visitor: Visitor) -> None:
        self._known[visitor.token] = visitor
        self._seen_ms[visitor.token] = self._now_ms()


async def _answers_strangers(cluster: TopicAdmin, address: str) -> bool:
    """Return whether a broker answers a request without a signature."""
    connections = Connections(credentials=None, tls=cluster.tls)
    try:
        await ask_broker(connections, address, Command(RequestCode.GET_BROKER_RUNTIME_INFO))
    except RemoteError as error:
        if error.code != ResponseCode.NO_PERMISSION:
            raise
        return False
    finally:
        await connections.close()
    return True
