"""Read a task's ranges: pull them, and build Arrow batches of the responses by kernels."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from cometmq.errors import StoreDamaged
from cometmq.logs import get_logger
from cometmq.spark import worth_loading
from cometmq.spark.files.bodies import decompress_bodies
from cometmq.spark.live.answers import Answers, RowFilter
from cometmq.spark.live.links import linked
from cometmq.spark.live.loss import report_loss
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.pulls import PulledPiece, RangePulls
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.worker import tune_worker

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Of the records in a batch, about: more would not fit the caches."""

log = get_logger(__name__)


def read(
    options: LiveOptions, columns: Sequence[str], ranges: Sequence[QueueRange]
) -> Iterator[pa.RecordBatch]:
    """Read the messages of ranges that the options choose, in batches of ``columns``.

    Raises:
        StoreDamaged: messages are lost (``failOnDataLoss``), or a body cannot be decompressed (FAILFAST).
        NetworkError: a broker did not respond for ``retrySeconds``.
        RemoteError: a broker refuses the request.
    """
    left = options.limit or sys.maxsize
    with linked(options.cluster) as link:
        pulls = RangePulls(options, link)
        try:
            pulls.add(ranges)
            while left and (pieces := link.run(pulls.next(BATCH_BYTES))):
                for batch in _batches(options, columns, pieces):
                    if left:
                        yield batch[:left]
                        left -= min(batch.num_rows, left)
        finally:
            link.run(pulls.close())
            tune_worker()


def _batches(
    options: LiveOptions, columns: Sequence[str], pieces: Sequence[PulledPiece]
) -> Iterator[pa.RecordBatch]:
    ops = worth_loading.ops_for(sum(len(body) for piece in pieces for body in piece.bodies))
    answers = Answers(ops, pieces)
    wanted = RowFilter(options.tags, options.starting_time, options.ending_time)

    def report_damage(damage: str) -> None:
        if options.fail_on_damage:
            raise StoreDamaged(f"{damage}; mode PERMISSIVE gives null")
        log.warning("%s", damage)

    for scan, rows in answers.scans():
        chosen = answers.choose(scan, rows, wanted)
        if len(chosen):
            batch = answers.batch(scan, chosen, columns)
            if options.decompress:
                yield from decompress_bodies(batch, scan.sys_flag[chosen], on_damage=report_damage)
            else:
                yield batch
    is_filtered = options.tags is not None or options.sql is not None
    gone = [one for piece in pieces for one in piece.gone]
    gone += [] if is_filtered else answers.missing()
    report_loss(options, gone, "the brokers have them no more")
