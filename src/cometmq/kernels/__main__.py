"""``python -m cometmq.kernels``: compile the kernels into a cache on the disk, so that they load at once.

``cometmq kernels`` compiles them into a named folder, for an image. With ``--with-parent``, as a broker
starts it, this process runs at a low priority and ends when its standard input ends.
"""

import logging
import os
import signal
import sys
import threading
from typing import Final, NoReturn

from cometmq.kernels.compiling import cache
from cometmq.kernels.loading import WITH_PARENT
from cometmq.logs import get_logger

log = get_logger("cometmq.kernels")

NICENESS: Final = 10


def main() -> None:
    """Compile the kernels into the cache, unless it holds them already."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, _leave)
    with_parent = WITH_PARENT in sys.argv[1:]
    if with_parent:
        os.nice(NICENESS)
        threading.Thread(target=_watch_parent, daemon=True).start()
    if cache.is_warm():
        log.info("the kernels are compiled already")
        return
    cache.load_compiled(for_all_users=not with_parent)
    log.info("the kernels are compiled")


def _leave(*_: object) -> NoReturn:
    sys.exit(1)  # raises SystemExit, so that the unfinished cache is removed


def _watch_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)  # at once: the main thread may be inside LLVM for seconds


if __name__ == "__main__":
    main()
