"""What is said of messages that are gone before they were read."""

import logging
from collections.abc import Sequence
from typing import Final

from cometmq.errors import StoreDamaged
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import Range

SHOWN_MAX: Final = 20

log = logging.getLogger(__name__)


def tell_loss(options: LiveOptions, lost: Sequence[Range], reason: str) -> None:
    """Name what is lost, if anything is. Raises StoreDamaged unless ``failOnDataLoss`` is false."""
    if not lost:
        return
    named = "; ".join(str(one) for one in joined(lost)[:SHOWN_MAX])
    more = f"; and {len(joined(lost)) - SHOWN_MAX} more" if len(joined(lost)) > SHOWN_MAX else ""
    said = f"messages are lost: {named}{more}: {reason}"
    if options.fail_on_data_loss:
        raise StoreDamaged(f"{said}; with failOnDataLoss false the read goes on without them")
    log.warning("%s", said)


def joined(ranges: Sequence[Range]) -> list[Range]:
    """Join ranges of a queue that follow on each other."""
    joined: list[Range] = []
    for one in sorted(ranges):
        if joined and joined[-1].queue == one.queue and joined[-1].end >= one.start:
            joined[-1] = joined[-1]._replace(end=max(one.end, joined[-1].end))
        else:
            joined.append(one)
    return joined
