"""Who may use the servers that commands run: options, and the name server of ``dev``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cometmq.cli.access import together
from cometmq.cli.paths import NamedPath
from cometmq.errors import SettingsError

if TYPE_CHECKING:
    from cometmq.broker.settings import BrokerSettings
    from cometmq.namesrv.access import NameServerAccess

insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help="Allow an address that other machines reach without authentication: whoever does can do everything.",
)
name_server_access_options = together(
    click.option(
        "--users",
        type=NamedPath(dir_okay=False),
        help="File of users, config/users.json of a broker: then requests must be signed.",
    ),
    click.option(
        "--closed-routes", is_flag=True, help="With --users: routes are for users of the topic only."
    ),
    click.option(
        "--cluster",
        default="DefaultCluster",
        show_default=True,
        help="Name of the cluster in users' policies.",
    ),
    insecure_option,
)
"""Adds the options of a name server's users to a command."""


def name_server_access(
    *, users: Path | None, closed_routes: bool, cluster: str, insecure: bool
) -> "NameServerAccess":
    """Return who may use a name server by these options. Raises SettingsError for a contradiction."""
    from cometmq.namesrv.access import NameServerAccess  # noqa: PLC0415 - the help must not wait for it

    if closed_routes and users is None:
        raise SettingsError("--closed-routes needs --users FILE: nobody could get a route")
    return NameServerAccess(users, closed_routes=closed_routes, cluster=cluster, insecure=insecure)


def access_in_dev(settings: "BrokerSettings") -> "NameServerAccess":
    """Return who may use the name server of ``dev``: the broker's users, if requests to it must be signed.

    The broker shares ``directory``, which has its saved users before it opens its store.

    Raises SettingsError: the broker could not register, or strangers could use it.
    """
    from cometmq.broker.name_servers.own_address import exposure  # noqa: PLC0415 - as above
    from cometmq.format.layout import config_path  # noqa: PLC0415 - as above
    from cometmq.namesrv.access import NameServerAccess  # noqa: PLC0415 - as above
    from cometmq.namesrv.user_files import USERS, UserFiles  # noqa: PLC0415 - as above

    exposure(settings)  # the name server's own error would name options that dev does not have
    if not settings.auth.authentication_enabled:
        return NameServerAccess(insecure=settings.auth.insecure)
    if settings.auth.inner_credentials is None:
        raise SettingsError(
            "setting authenticationEnabled = true needs innerClientAuthenticationCredentials here: "
            "the broker signs its registration with them"
        )
    path = config_path(Path(settings.store_path_root_dir), USERS)
    users = UserFiles(path, filter(None, (settings.auth.initial_user, settings.auth.inner_credentials)))
    return NameServerAccess(directory=users.directory, cluster=settings.identity.broker_cluster_name)
