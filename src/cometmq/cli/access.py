"""The options that say how a command reaches servers beside their addresses: as which user, and by TLS.

They are the same for all commands that talk to servers, which get them with ``--namesrv``. Commands pass
``**access()`` to each client that they open.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cometmq.cli.paths import NamedPath
from cometmq.errors import SettingsError

if TYPE_CHECKING:
    from cometmq.wire.acl import Credentials

KEY_PASSWORD: Final = "COMETMQ_TLS_KEY_PASSWORD"  # noqa: S105  the name of a variable
ROCKETMQ_HOME: Final = "ROCKETMQ_HOME"
"""The variable with RocketMQ's directory; mqadmin reads its credentials in ``conf/tools.yml`` there."""
_META: Final = "cometmq.cli.access"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep an option's value with the command, for ``access``."""
    context.meta.setdefault(_META, {})[parameter.name] = value


def _option(*names: str, variable: str, text: str, **kind: Any) -> Callable[[CommandT], CommandT]:
    return click.option(
        *names, envvar=variable, show_envvar=True, help=text, callback=_keep, expose_value=False, **kind
    )


def together(*options: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """Return a decorator that adds all these options to a command, in this order."""

    def add(command: CommandT) -> CommandT:
        for option in reversed(options):
            command = option(command)
        return command

    return add


access_options = together(
    _option(
        "--credentials",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_CREDENTIALS",
        text="File with the lines accessKey: NAME and secretKey: SECRET, as RocketMQ's tools.yml.  [default: "
        "COMETMQ_ACCESS_KEY and COMETMQ_SECRET_KEY, else $ROCKETMQ_HOME/conf/tools.yml]",
    ),
    _option(
        "--tls", is_flag=True, variable="COMETMQ_TLS", text="Connect by TLS; the other options imply it."
    ),
    _option(
        "--tls-ca",
        "ca_file",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_TLS_CA",
        text="Certificates (PEM) of trusted authorities.  [default: the system's]",
    ),
    _option(
        "--tls-cert",
        "cert_file",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_TLS_CERT",
        text="The certificate (PEM) to show to servers …",
    ),
    _option(
        "--tls-key",
        "key_file",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_TLS_KEY",
        text=f"… and its key (PEM); {KEY_PASSWORD} has its password.",
    ),
    _option(
        "--tls-any-host",
        is_flag=True,
        variable="COMETMQ_TLS_ANY_HOST",
        text="Accept trusted certificates for other hosts.",
    ),
    _option(
        "--tls-insecure",
        is_flag=True,
        variable="COMETMQ_TLS_INSECURE",
        text="Do not check certificates: who sits between reads and changes everything.",
    ),
)
"""Adds the options of credentials and of TLS to a command."""


def access() -> dict[str, Any]:
    """Return the arguments, beside addresses, with which the running command opens its clients."""
    context = click.get_current_context(silent=True)
    given = dict({} if context is None else context.meta.get(_META, {}))
    credentials = _credentials(given.pop("credentials", None))
    if not any(given.values()):
        return {"credentials": credentials, "tls": None}
    from cometmq.net.tls.client import TLS  # noqa: PLC0415  the standard library's part takes 10 ms

    return {"credentials": credentials, "tls": TLS(**_arguments(given))}


def _credentials(path: Path | None) -> "Credentials | None":
    """Return the credentials of a file; without one those of the tools, unless the environment has some.

    The clients themselves take those of the environment. Raises SettingsError for a file of no use.
    """
    from cometmq.client.credentials import in_environment, read_credentials  # noqa: PLC0415  as above

    if path is not None:
        found = read_credentials(path)
        if found is None:
            raise SettingsError(f"file of credentials {path}: it has no accessKey and no secretKey")
        return found
    home = os.environ.get(ROCKETMQ_HOME)
    tools = Path(home, "conf", "tools.yml") if home else None
    return None if in_environment() or tools is None or not tools.exists() else read_credentials(tools)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of TLS for the options that were given."""
    files = {name: given[name] for name in ("ca_file", "cert_file", "key_file")}
    return files | {
        "key_password": os.environ.get(KEY_PASSWORD),
        "check_host": not given["tls_any_host"],
        "verify": not given["tls_insecure"],
    }
