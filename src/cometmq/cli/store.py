"""``cometmq store``: look into a store directory, search it, check it, rebuild what is derived, clean it."""

import click

from cometmq.cli.store_clean import clean
from cometmq.cli.store_find import find
from cometmq.cli.store_inspect import inspect
from cometmq.cli.store_rebuild import rebuild
from cometmq.cli.store_salvage import salvage
from cometmq.cli.store_status import status
from cometmq.cli.store_verify import verify


@click.group()
def store() -> None:
    """Look into a store directory, search, check, rebuild and clean it: no broker needed.

    All but rebuild and clean only read. The sizes of files are told from the files themselves, unless
    --config says them.
    """


for command in (inspect, status, find, verify, rebuild, salvage, clean):
    store.add_command(command)
