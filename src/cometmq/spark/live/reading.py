"""What a task does: pulls its ranges, and makes Arrow batches of the answers by kernels."""

import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from cometmq import kernels
from cometmq.errors import StoreDamaged
from cometmq.spark.files.bodies import whole_bodies
from cometmq.spark.live.answers import Answers, RowFilter
from cometmq.spark.live.links import linked
from cometmq.spark.live.loss import tell_loss
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.pulls import PulledPiece, RangePulls
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.worker import settle

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Of the records in a batch, about: more would not stay in caches."""

log = logging.getLogger(__name__)


def read(
    options: LiveOptions, columns: Sequence[str], ranges: Sequence[QueueRange]
) -> Iterator[pa.RecordBatch]:
    """Give the messages of ranges that are wanted, in batches of ``columns``.

    Raises:
        StoreDamaged: messages are gone (``failOnDataLoss``): names them; or a body cannot be decompressed
            (FAILFAST).
        NetworkError: a broker does not answer for ``retrySeconds``: names it.
        RemoteError: it refuses.
    """
    left = options.limit or sys.maxsize
    with linked(options.name_servers) as link:
        pulls = RangePulls(options, link)
        try:
            pulls.begin(ranges)
            while left and (pieces := link.run(pulls.next(BATCH_BYTES))):
                for batch in _batches(options, columns, pieces):
                    if left:
                        yield batch[:left]
                        left -= min(batch.num_rows, left)
        finally:
            link.run(pulls.close())
            settle()


def _batches(
    options: LiveOptions, columns: Sequence[str], pieces: Sequence[PulledPiece]
) -> Iterator[pa.RecordBatch]:
    ops = kernels.load_if_possible()
    answers = Answers(ops, pieces)
    wanted = RowFilter(options.tags, options.starting_time, options.ending_time)

    def tell(damage: str) -> None:
        if options.fail_on_damage:
            raise StoreDamaged(f"{damage}; mode PERMISSIVE gives null")
        log.warning("%s", damage)

    for scan, rows in answers.scans():
        chosen = answers.choose(scan, rows, wanted)
        if len(chosen):
            batch = answers.batch(scan, chosen, columns)
            sys_flags = scan.sys_flag[chosen]
            yield from whole_bodies(batch, sys_flags, on_damage=tell) if options.decompress else (batch,)
    is_filtered = options.tags is not None or options.sql is not None
    gone = [one for piece in pieces for one in piece.gone] if is_filtered else answers.missing()
    tell_loss(options, gone, "the brokers have them no more")
