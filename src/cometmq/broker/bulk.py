"""What the broker does with frames in bulk, before anybody makes commands of them."""

from collections.abc import Sequence
from typing import Final

from cometmq.broker.bulk_pulls import BulkPulls
from cometmq.broker.bulk_sends import BulkSends
from cometmq.net.turn import Read
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import PREFIX_SIZE

_PULL_STARTS: Final = tuple(
    start
    for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    for start in (b'{"code":%d,' % code, code.to_bytes(2, "big"))
)


class Bulk:
    """Takes the usual sends and pulls (a ``net.turn.BulkHandler``).

    The kernel of sends looks at all frames; those that are pulls by the look of their first bytes are spared
    that.
    """

    def __init__(self, sends: BulkSends, pulls: BulkPulls) -> None:
        self._sends = sends
        self._pulls = pulls

    def take(self, reads: Sequence[Read]) -> None:
        """Answer the usual sends and pulls of a turn: see ``net.turn.BulkHandler``."""
        pulls: list[Read] = []
        rest: list[Read] = []
        for read in reads:
            is_pull = read.data.startswith(_PULL_STARTS, read.position + PREFIX_SIZE)
            (pulls if is_pull else rest).append(read)
        if pulls:
            rest += self._pulls.take(pulls, [len(read.data) for read in pulls])
        if rest:
            self._take_sends(rest)

    def _take_sends(self, reads: Sequence[Read]) -> None:
        """Take sends; of what follows them take the pulls."""
        self._sends.take(reads)
        rest = [read for read in reads if read.position < read.commands_end]
        if rest:
            self._pulls.take(rest, [read.commands_end for read in rest])
