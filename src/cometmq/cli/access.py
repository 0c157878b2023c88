"""The options that say how a command reaches servers beside their addresses: by TLS, and with which files.

They are the same for all commands that talk to servers, which get them with ``--namesrv``. Commands pass
``**access()`` to each client that they open.
"""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from cometmq.cli.paths import NamedPath

KEY_PASSWORD: Final = "COMETMQ_TLS_KEY_PASSWORD"  # noqa: S105  the name of a variable
_META: Final = "cometmq.cli.access"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep an option's value with the command, for ``access``."""
    context.meta.setdefault(_META, {})[parameter.name] = value


def _tls_option(*names: str, variable: str, text: str, **kind: Any) -> Callable[[CommandT], CommandT]:
    return click.option(
        *names, envvar=variable, show_envvar=True, help=text, callback=_keep, expose_value=False, **kind
    )


_OPTIONS: Final = (
    _tls_option(
        "--tls", is_flag=True, variable="COMETMQ_TLS", text="Connect by TLS; the other options imply it."
    ),
    _tls_option(
        "--tls-ca",
        "ca_file",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_TLS_CA",
        text="Certificates (PEM) of trusted authorities.  [default: the system's]",
    ),
    _tls_option(
        "--tls-cert",
        "cert_file",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_TLS_CERT",
        text="The certificate (PEM) to show to servers …",
    ),
    _tls_option(
        "--tls-key",
        "key_file",
        type=NamedPath(dir_okay=False),
        variable="COMETMQ_TLS_KEY",
        text=f"… and its key (PEM); {KEY_PASSWORD} has its password.",
    ),
    _tls_option(
        "--tls-any-host",
        is_flag=True,
        variable="COMETMQ_TLS_ANY_HOST",
        text="Accept trusted certificates for other hosts.",
    ),
    _tls_option(
        "--tls-insecure",
        is_flag=True,
        variable="COMETMQ_TLS_INSECURE",
        text="Do not check certificates: who sits between reads and changes everything.",
    ),
)


def tls_options(command: CommandT) -> CommandT:
    """Add the options of TLS to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def access() -> dict[str, Any]:
    """Return the arguments, beside addresses, with which the running command opens its clients."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.meta.get(_META, {})
    if not any(given.values()):
        return {"tls": None}
    from cometmq.net.tls.client import TLS  # noqa: PLC0415  the standard library's part takes 10 ms

    return {"tls": TLS(**_arguments(given))}


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of TLS for the options that were given."""
    files = {name: given[name] for name in ("ca_file", "cert_file", "key_file")}
    return files | {
        "key_password": os.environ.get(KEY_PASSWORD),
        "check_host": not given["tls_any_host"],
        "verify": not given["tls_insecure"],
    }
