"""The settings of a console."""

from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import SettingsError
from cometmq.net.exposure import is_loopback
from cometmq.net.tls.client import TLS
from cometmq.wire.acl import Credentials

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""As many as RocketMQ's clients send by default."""
EXPORTS_MAX: Final = 4


class ConnectionLimits(NamedTuple):
    """The limits of a console's connections.

    Attributes:
        connections_max: open connections.
        waiting_max: connections of one address on which no whole request has come, or whose answer is not
            read; 0 for any number.
        request_ms_max: how long a whole request may take, and reading a part of its answer.
    """

    connections_max: int = 1_024
    waiting_max: int = 256
    request_ms_max: int = 30_000


LIMITS = ConnectionLimits()


class ConsoleSettings(NamedTuple):
    """The settings of a console.

    Attributes:
        name_servers: ``host:port``, several joined by ``;``; empty for a console of a store directory.
        store: the store directory of a broker that does not run; None for a console of a cluster.
        host: the address that it listens on.
        host_names: names under which browsers reach it, beside those of loopback; all if it is empty and
            ``host`` is not loopback.
        read_only: whether it refuses all that changes something.
        login: whether visitors sign in with a user of the cluster, whose rights they then have.
        insecure: whether it may listen where other machines reach it, without a login.
        credentials: sign the requests without a login; None for those of the environment.
        tls: how to connect to servers by TLS; None to connect plainly.
        limits: the limits of its connections.
        body_bytes_max: most bytes of a message's body, decompressed, that are exported or downloaded as such.
        exports_max: most exports that run at a time; who asks for one more is told to try again.
    """

    name_servers: str = ""
    store: Path | None = None
    host: str = "127.0.0.1"
    host_names: tuple[str, ...] = ()
    read_only: bool = False
    login: bool = False
    insecure: bool = False
    credentials: Credentials | None = None
    tls: TLS | None = None
    limits: ConnectionLimits = LIMITS
    body_bytes_max: int = BODY_BYTES_MAX
    exports_max: int = EXPORTS_MAX

    def check(self) -> str:
        """Check that strangers cannot use it; return what is insecure all the same, and the remedy.

        Raises SettingsError if they could, naming the ways on.
        """
        if self.login and self.store is not None:
            raise SettingsError("--login: a store directory has no users to sign in; leave it out")
        if self.limits.request_ms_max < 1:
            raise SettingsError("--request-timeout: no request comes in no time; 30s is the default")
        for option, value in (("--body-bytes-max", self.body_bytes_max), ("--exports-max", self.exports_max)):
            if value < 1:
                raise SettingsError(f"{option} {value}: give at least 1")
        if is_loopback(self.host):
            return ""
        if self.login:
            return (
                f"{self.host} speaks HTTP: whoever is on the way can read the secrets that visitors sign in "
                "with. Listen on 127.0.0.1, behind a reverse proxy that adds TLS"
            )
        if self.insecure:
            return f"whoever reaches {self.host} can read, send and change everything. Require --login"
        raise SettingsError(
            f"cannot listen on {self.host}: other machines could reach the console, and whoever does could "
            "read, send and change everything: listen on 127.0.0.1, require --login, or pass --insecure"
        )

    @property
    def allowed_hosts(self) -> frozenset[str] | None:
        """The hosts that requests may name, so that no site's name can be pointed at it; None for any."""
        if not self.host_names and not is_loopback(self.host):
            return None
        return frozenset((*LOOPBACK_NAMES, *self.host_names, self.host))
