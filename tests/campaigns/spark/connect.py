"""Spark Connect: a server as the guide starts it, and its page as a client without Java runs it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.find_spark_home import _find_spark_home
from tests.campaigns.spark.standalone import HOST, environment, started
from tests.kit.pages import NAME_SERVER, ROOT, blocks_of, printed_by
from tests.live import in_thread

from cometmq.net.address import free_port

PAGE: Final = ROOT / "docs" / "guide" / "spark-connect.md"
ADDRESS: Final = "127.0.0.1:15002"
"""Of the server, on the page."""
PATIENCE_S: Final = 300
READY: Final = re.compile(r"Spark Connect server started at: \S*?:(\d+)$")


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a server on two cores, whose files are in ``folder``; yield its address."""
    script = Path(_find_spark_home(), "sbin", "start-connect-server.sh")
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = (str(script), "--wait", "--master", "local[2]", *conf)
    variables = environment(folder) | {"SPARK_DAEMON_MEMORY": "1g"}  # it is the driver
    with started(command, READY, variables, folder / "connect.log") as port:
        yield f"{HOST}:{port}"


def run_page(address: str, folder: Path) -> int:
    """Run the page's programs against a server, in a folder; return how many.

    Raises AssertionError if one prints something else than the page says.
    """
    with in_thread(folder / "store") as live:
        texts = {ADDRESS: address, NAME_SERVER: live.name_server, '"lake/': f'"{folder}/lake/'}
        blocks = list(blocks_of(PAGE.read_text()))
        for found, text in texts.items():
            blocks = [block._replace(code=block.code.replace(found, text)) for block in blocks]
        printed = printed_by(blocks, folder, PATIENCE_S)
    for block in blocks:
        assert block.printed in (None, printed[block.line]), f"line {block.line} prints {printed[block.line]}"
    return len(blocks)
