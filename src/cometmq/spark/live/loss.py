"""What is said of messages that are gone before they were read."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from cometmq.errors import StoreDamaged
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.survey import TopicOnBroker

SHOWN_MAX: Final = 20

log = logging.getLogger(__name__)


def tell_loss(options: LiveOptions, lost: Sequence[QueueRange], reason: str) -> None:
    """Name what is lost, if anything is. Raises StoreDamaged unless ``failOnDataLoss`` is false."""
    if lost:
        _report(options, f"messages are lost: {_named(joined(lost))}: {reason}")


def report_recreated(options: LiveOptions, places: Iterable[TopicOnBroker]) -> None:
    """Name topics that were created again. Raises StoreDamaged unless ``failOnDataLoss`` is false."""
    named = _named([f"topic {topic}, broker {broker_name}" for topic, broker_name in sorted(places)])
    _report(
        options,
        f"messages are lost: {named}: the topic was deleted and created again, as its first message is "
        "another one than the checkpoint knows",
    )


def _named(lost: Sequence[object]) -> str:
    more = f"; and {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
    return "; ".join(map(str, lost[:SHOWN_MAX])) + more


def _report(options: LiveOptions, said: str) -> None:
    if options.fail_on_data_loss:
        raise StoreDamaged(f"{said}; with failOnDataLoss false the read goes on without them")
    log.warning("%s", said)


def joined(ranges: Sequence[QueueRange]) -> list[QueueRange]:
    """Join ranges of a queue that follow on each other."""
    joined: list[QueueRange] = []
    for one in sorted(ranges):
        if joined and joined[-1].queue == one.queue and joined[-1].end >= one.start:
            joined[-1] = joined[-1]._replace(end=max(one.end, joined[-1].end))
        else:
            joined.append(one)
    return joined
