"""``cometmq store``: inspect, search and check a store directory, rebuild its derived files, and clean it."""

import click

from cometmq.cli.store.clean import clean
from cometmq.cli.store.find import find
from cometmq.cli.store.inspect import inspect
from cometmq.cli.store.rebuild import rebuild
from cometmq.cli.store.salvage import salvage
from cometmq.cli.store.status import status
from cometmq.cli.store.verify import verify


@click.group()
def store() -> None:
    """Inspect, search, check, rebuild and clean a store directory: no broker needed.

    All commands except rebuild and clean only read. The sizes of files are determined from the files, unless
    --config has them.
    """


for command in (inspect, status, find, verify, rebuild, salvage, clean):
    store.add_command(command)
