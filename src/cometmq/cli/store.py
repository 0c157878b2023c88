"""``cometmq store``: inspect, search and check a store directory, rebuild its derived files, and clean it."""

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
    """Inspect, search, check, rebuild and clean a store directory: no broker needed.

    All commands except rebuild and clean only read. The sizes of files are determined from the files, unless
    --config has them.
    """


for command in (inspect, status, find, verify, rebuild, salvage, clean):
    store.add_command(command)
