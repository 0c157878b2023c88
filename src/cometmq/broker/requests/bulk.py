"""What the broker does with frames in bulk, before anybody makes commands of them."""

from collections.abc import Sequence
from typing import Final

from cometmq.broker.requests.message_queries import MessageQueries
from cometmq.broker.requests.pop.acks import Acks
from cometmq.broker.requests.pull import PullRequests
from cometmq.broker.requests.send import Sends
from cometmq.kernels.headers.plain import HeaderStarts
from cometmq.net.session import Session
from cometmq.net.turn import Read
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import PREFIX_SIZE, frame_end
from cometmq.wire.requests import SENDS


def starts_of(*codes: int) -> tuple[bytes, ...]:
    """Return how the headers of requests begin: in JSON as the Java client writes it, and ROCKETMQ ones."""
    starts = HeaderStarts(*codes)
    return starts.json + starts.binary


SEND_STARTS: Final = starts_of(*SENDS)
"""How the headers of sends begin, as a rule."""
_PULL_STARTS: Final = starts_of(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_ACK_STARTS: Final = starts_of(RequestCode.ACK_MESSAGE)
_POP_STARTS: Final = starts_of(RequestCode.POP_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
"""Such requests are commands."""
_COMMAND_STARTS: Final = SEND_STARTS + _POP_STARTS
"""Requests that are neither pulls nor queries, and that sends have left."""
_QUERY_STARTS: Final = starts_of(RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID)

RARE_READS: Final = 8
"""After so many reads in a row that begin with a rare send a connection's next ones likely do, too …"""
TRIED_READS: Final = 32
"""… so that the leaf operation on sends, for which that is lost work, looks only at each of so many."""


class Bulk:
    """Hands a turn's frames to sends, pulls, queries and acknowledgements (a ``net.turn.BulkHandler``).

    The leaf operation on sends looks at all frames; those that are others by the look of their first bytes
    are spared that.
    """

    def __init__(self, sends: Sends, pulls: PullRequests, queries: MessageQueries, acks: Acks) -> None:
        self._sends = sends
        self._pulls = pulls
        self._queries = queries
        self._acks = acks

    def take(self, reads: Sequence[Read]) -> None:
        """Answer the usual requests of a turn: see ``net.turn.BulkHandler``."""
        pulls: list[Read] = []
        queries: list[Read] = []
        acks: list[Read] = []
        pops: list[Read] = []
        rest: list[Read] = []
        for read in reads:
            at = read.position + PREFIX_SIZE
            if read.data.startswith(_PULL_STARTS, at):
                pulls.append(read)
            elif read.data.startswith(_ACK_STARTS, at):
                acks.append(read)
            elif read.data.startswith(_POP_STARTS, at):
                pops.append(read)
            elif read.data.startswith(_QUERY_STARTS, at):
                queries.append(read)
            elif is_likely_rare(read.session):
                read.commands_end = len(read.data)
            else:
                rest.append(read)
        if pulls:
            rest += self._pulls.take(pulls, [len(read.data) for read in pulls])
        if acks:
            pops += self._acks.take(acks)
        for read in pops:
            read.commands_end = _end_of_pops(read.data, read.position)
        if queries:
            rest += self._queries.take(queries, [len(read.data) for read in queries])
        if rest:
            self._take_sends(rest)

    def _take_sends(self, reads: Sequence[Read]) -> None:
        """Handle sends; then the pulls and queries that follow them, however their headers are written.

        A read that goes on with a send that was not taken, or with what is no row, brings neither, usually:
        it goes on as commands.
        """
        self._sends.take(reads)
        rest: list[Read] = []
        for read in reads:
            at = read.position
            if at == read.commands_end:
                read.session.rare_reads = 0
            elif read.data.startswith(_ACK_STARTS, at + PREFIX_SIZE):
                read.commands_end = at  # the next call takes it
            elif not read.data.startswith(_COMMAND_STARTS, at + PREFIX_SIZE):
                rest.append(read)
            elif not at:
                read.session.rare_reads += 1
        if rest:
            rest = self._pulls.take(rest, [read.commands_end for read in rest])
        if rest:
            self._queries.take(rest, [read.commands_end for read in rest])


def is_likely_rare(session: Session) -> bool:
    """Return whether a read of a connection likely begins with a rare send, and count it if so."""
    rare_reads = session.rare_reads
    if rare_reads < RARE_READS or rare_reads % TRIED_READS == 0:
        return False
    session.rare_reads += 1
    return True


def _end_of_pops(data: bytes, position: int) -> int:
    """Return the end of the frame at a position, and of those like ``_POP_STARTS`` that follow it."""
    while (end := frame_end(data, position)) >= 0:
        if not data.startswith(_POP_STARTS, end + PREFIX_SIZE):
            return end
        position = end
    return len(data)
