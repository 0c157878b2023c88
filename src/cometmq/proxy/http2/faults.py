"""Log what clients do wrong, as often as they like: of each kind a line at once, then their number."""

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial

from cometmq.logs import get_logger
from cometmq.net.occasional_log import OccasionalLog


class PeerFault(Enum):
    """A kind of fault, by what the log says of it."""

    CLOSED = "closed %d connections, the last one of %s: %s"
    REFUSED = "refused %d calls, the last one of %s: %s"
    CUT = "%d calls were cut by their clients, the last one of %s: %s"


_LEVELS = {PeerFault.CLOSED: logging.WARNING, PeerFault.REFUSED: logging.INFO, PeerFault.CUT: logging.INFO}

_log = get_logger(__name__)


class PeerFaults:
    """Counts the faults of the clients of a server."""

    def __init__(self) -> None:
        self._logs: dict[PeerFault, OccasionalLog] = {
            kind: OccasionalLog(self._writer(kind)) for kind in PeerFault
        }
        self._last: dict[PeerFault, tuple[str, str]] = {}

    def add(self, kind: PeerFault, peer: object, reason: str) -> None:
        """Count a fault of a client, and log it soon."""
        self._last[kind] = str(peer), reason
        self._logs[kind].add()

    def close(self) -> None:
        """Log what is not logged yet."""
        for log in self._logs.values():
            log.close()

    def _writer(self, kind: PeerFault) -> Callable[[int], None]:
        return partial(self._write, kind)

    def _write(self, kind: PeerFault, count: int) -> None:
        peer, reason = self._last[kind]
        _log.log(_LEVELS[kind], kind.value, count, peer, reason)
