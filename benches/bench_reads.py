"""What a pull costs the store, where all that it reads is in memory.

    python -m benches.bench_reads

In process, over a log with the messages of some queues in turn, as many producers leave it. Consumers of all
queues go through it side by side; each figure is the best of some rounds, for what disturbs a round only
makes it slower. ``tail``: a queue's newest message, whose entry is not in a file yet. ``elsewhere``: each
queue is read at another place of a log of a gigabyte. Faults are first touches of pages that were not mapped.
"""

import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benches.fill import Fill

from cometmq import kernels
from cometmq.format.java.java_hash import tags_code
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

ROUNDS: Final = 9
PULLS: Final = 2_000
FILL_BYTES: Final = 16 << 20
NO_TAG: Final = frozenset((0,))
OTHER_TAG: Final = frozenset((tags_code("other"),))


class Case(NamedTuple):
    """Pulls of one kind."""

    name: str
    queues: int
    max_count: int
    tags: frozenset[int] | None = None
    is_tail: bool = False
    fill_bytes: int = FILL_BYTES
    is_elsewhere: bool = False


class Cost(NamedTuple):
    """What a pull takes."""

    us: float
    faults: float


CASES: Final = (
    Case("1 message, tail", 64, 1, is_tail=True),
    Case("1 message", 64, 1),
    Case("32 side by side", 1, 32),
    Case("32 over 64 queues", 64, 32),
    Case("32 over 1,024 queues", 1024, 32),
    Case("32 of 512 queues, each elsewhere", 512, 32, fill_bytes=1 << 30, is_elsewhere=True),
    Case("32 over 64 queues, tag wanted", 64, 32, NO_TAG),
    Case("none of 64 queues, tag unwanted", 64, 32, OTHER_TAG),
)


def main() -> None:
    """Run all; print a table."""
    kernels.load()
    print(f"{'case':<34}{'us per pull':>12}{'us per message':>16}{'faults per pull':>17}")
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="cometmq-reads-") as folder:
            (us, faults), messages = measure(Path(folder) / "store", case)
        print(
            f"{case.name:<34}{us:>12.2f}{us / messages if messages else 0:>16.2f}{faults:>17.2f}", flush=True
        )


def measure(directory: Path, case: Case) -> tuple[Cost, int]:
    """Return what a pull costs, and how many messages it gives."""
    with MessageStore.open(directory, StoreSettings()) as store:
        fill = Fill(store, max(case.queues // 8, 1), min(case.queues, 8))
        fill.up_to(case.fill_bytes)
        if case.is_tail:
            return measure_on(store, fill.queues, case)
    with MessageStore.open(directory, StoreSettings()) as store:
        return measure_on(store, fill.queues, case)


def measure_on(store: MessageStore, queues: list[tuple[str, int]], case: Case) -> tuple[Cost, int]:
    """Return the same, on an open store."""
    pulls = list(pulls_of(store, queues, case))
    best = min(round_of(store, pulls, case) for _ in range(ROUNDS))
    return best, len(store.get(*pulls[0], case.max_count, tags_codes=case.tags).sizes)


def pulls_of(
    store: MessageStore, queues: list[tuple[str, int]], case: Case
) -> Iterator[tuple[str, int, int]]:
    """Yield topic, queue and queue offset of each pull: all queues in turn, then their next messages."""
    ends = [(topic, queue, store.max_queue_offset(topic, queue)) for topic, queue in queues]
    places = random.Random(0)
    begins = [places.randrange(end) if case.is_elsewhere else 0 for _, _, end in ends]
    for number in range(PULLS):
        topic, queue, end = ends[number % len(ends)]
        step = begins[number % len(ends)] + case.max_count * (number // len(ends))
        yield topic, queue, end - 1 if case.is_tail else step % (end - case.max_count)


def round_of(store: MessageStore, pulls: list[tuple[str, int, int]], case: Case) -> Cost:
    """Return what a pull costs, of all in turn, with the upkeep that a broker does meanwhile."""
    max_count, tags = case.max_count, case.tags
    faults, begin = page_faults(), time.process_time()
    for topic, queue, offset in pulls:
        store.get(topic, queue, offset, max_count, tags_codes=tags)
    store.tick()
    us = (time.process_time() - begin) * 1e6
    return Cost(us / len(pulls), (page_faults() - faults) / len(pulls))


def page_faults() -> int:
    """Count the process's faults."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


if __name__ == "__main__":
    main()
