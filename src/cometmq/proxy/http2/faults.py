"""Log what clients do wrong, as often as they like: of each kind a line at once, then their number."""

import logging
from enum import Enum
from typing import Final

from cometmq.logs import get_logger
from cometmq.net.occasional_log import PeerLog


class PeerFault(Enum):
    """A kind of fault, by what the log says of it."""

    CLOSED = "closed the connection of %s: %s"
    REFUSED = "refused a call of %s: %s"
    CUT = "a call of %s was cut by its client: %s"


_LEVELS: Final = {
    PeerFault.CLOSED: logging.WARNING,
    PeerFault.REFUSED: logging.INFO,
    PeerFault.CUT: logging.INFO,
}

_log = get_logger(__name__)


class PeerFaults:
    """Counts the faults of the clients of a server."""

    def __init__(self) -> None:
        self._logs = {kind: PeerLog(_log, _LEVELS[kind], kind.value) for kind in PeerFault}

    def add(self, kind: PeerFault, peer: object, reason: str) -> None:
        """Count a fault of a client, and log it soon."""
        self._logs[kind].add(peer, reason)

    def close(self) -> None:
        """Log what is not logged yet."""
        for log in self._logs.values():
            log.close()
