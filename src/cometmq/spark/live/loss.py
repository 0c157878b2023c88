"""Report messages that were lost before they were read."""

from collections.abc import Iterable, Sequence
from typing import Final

from cometmq.errors import StoreDamaged
from cometmq.logs import get_logger
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.survey import TopicOnBroker

SHOWN_MAX: Final = 20

log = get_logger(__name__)


def report_loss(options: LiveOptions, lost: Sequence[QueueRange], reason: str) -> None:
    """Report lost messages, if any. Raises StoreDamaged unless ``failOnDataLoss`` is false."""
    if lost:
        _report(options, f"messages are lost: {_named(merged(lost))}: {reason}")


def report_recreated(options: LiveOptions, places: Iterable[TopicOnBroker]) -> None:
    """Report topics that were created again. Raises StoreDamaged unless ``failOnDataLoss`` is false."""
    named = _named([f"topic {topic}, broker {broker_name}" for topic, broker_name in sorted(places)])
    _report(
        options,
        f"messages are lost: {named}: the topic was deleted and created again, as its first message is "
        "another one than the checkpoint knows",
    )


def _named(lost: Sequence[object]) -> str:
    more = f"; and {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
    return "; ".join(map(str, lost[:SHOWN_MAX])) + more


def _report(options: LiveOptions, message: str) -> None:
    if options.fail_on_data_loss:
        raise StoreDamaged(f"{message}; with failOnDataLoss false the read goes on without them")
    log.warning("%s", message)


def merged(ranges: Sequence[QueueRange]) -> list[QueueRange]:
    """Merge adjacent and overlapping ranges of each queue."""
    found: list[QueueRange] = []
    for one in sorted(ranges):
        if found and found[-1].queue == one.queue and found[-1].end >= one.start:
            found[-1] = found[-1]._replace(end=max(one.end, found[-1].end))
        else:
            found.append(one)
    return found
