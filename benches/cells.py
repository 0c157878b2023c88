"""What ``python -m benches`` measures: stages with brokers of their own, and cells of load within them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

SENDS: Final = ("rocketmq", "cometmq", "null", "kafka")
READS: Final = ("rocketmq", "cometmq", "kafka")
ROCKETMQ_ONLY: Final = ("rocketmq", "cometmq")
"""What only RocketMQ's protocol has."""
THREADS: Final = 64
BODY_SIZE: Final = 128
QUEUES: Final = 8
STEADY_RATE: Final = 5_000
MANY: Final = 4_096
"""Topics of the stage that has most."""
POPS_LATER_S: Final = 8
"""Popped messages are invisible for 5 s; then the check points and acknowledgements come due that a broker
has stored, and some seconds later all is settled."""
FEW_THREADS: Final = 4
"""Threads that hand messages to a window of unanswered ones: more would only wait for it."""


class Cell(NamedTuple):
    """One load, put on each of some brokers in turn.

    Attributes:
        name: what the tables call it.
        mode: what the load generator calls it: see ``Load.java``.
        topics: how many topics it goes to, each of 8 queues.
        rate: messages a second of all threads together; 0 for as many as can be.
        consumes: whether a consumer reads what is sent, at the same time.
        brokers: which brokers have it.
        later_s: how long after a message a broker still works for it. Its windows come right after uncounted
            ones of this length, so that each has as much of the work for messages before it as it leaves.
    """

    name: str
    mode: str
    threads: int = THREADS
    topics: int = 64
    body_size: int = BODY_SIZE
    rate: int = 0
    consumes: bool = False
    brokers: tuple[str, ...] = SENDS
    later_s: float = 0


class Stage(NamedTuple):
    """Cells that share started brokers.

    Attributes:
        topics: how many topics are made.
        settings: of RocketMQ and CometMQ, beside their defaults.
        stored: how many messages each broker that has a cell gets before.
        is_cold: whether each cell has brokers of its own, measured from their start; only the client is warm.
    """

    name: str
    topics: int
    cells: tuple[Cell, ...]
    settings: Mapping[str, object]
    stored: int = 0
    is_cold: bool = False


def _sends(topics: int) -> tuple[Cell, ...]:
    """Return the four ways of sending 128 bytes."""
    return (
        Cell(f"sync, {topics} topics", "sync", topics=topics),
        Cell(f"async, {topics} topics", "async", topics=topics, threads=FEW_THREADS),
        Cell(f"oneway, {topics} topics", "oneway", topics=topics),
        Cell(f"batch of 32, {topics} topics", "batch", topics=topics, threads=32, brokers=ROCKETMQ_ONLY),
    )


def _sends_of_many(topics: int) -> tuple[Cell, ...]:
    """Return two of them to some of many topics, on brokers that have all."""
    which = "" if topics == MANY else f" of {MANY:,}"
    return tuple(
        cell._replace(name=f"{cell.name}{which}", brokers=ROCKETMQ_ONLY) for cell in _sends(topics)[:2]
    )


def _sends_of_started(topics: int) -> tuple[Cell, ...]:
    """Return three of them, on brokers just started. Kafka has a client of its own, which is cold."""
    return tuple(
        cell._replace(name=f"{cell.name}, just started", brokers=("rocketmq", "cometmq", "null"))
        for cell in _sends(topics)[:3]
    )


_OTHER_SENDS: Final = (
    Cell("sync, 128 threads", "sync", threads=128),
    Cell("sync, 1 KiB", "sync", body_size=1024),
    Cell("async, 1 KiB", "async", body_size=1024, threads=FEW_THREADS),
    Cell(f"sync, {STEADY_RATE:,}/s", "sync", rate=STEADY_RATE, brokers=ROCKETMQ_ONLY),
)
_READS: Final = (
    Cell("push consume", "push", threads=0, brokers=READS),
    Cell("pop and ack", "pop", threads=0, brokers=ROCKETMQ_ONLY, later_s=POPS_LATER_S),
    Cell("lite pull", "pull", threads=1, brokers=ROCKETMQ_ONLY),
    Cell("send and consume", "sync", consumes=True, brokers=ROCKETMQ_ONLY),
    Cell("query by id", "id", threads=16, brokers=ROCKETMQ_ONLY),
    Cell("query by key", "key", threads=16, brokers=ROCKETMQ_ONLY),
)
STORED: Final = 3_000_000
"""All have the same to read, a gigabyte: of what lies 40 % of the memory back pulls get fewer messages."""
FULL: Final = (
    Stage("ASYNC_FLUSH", 256, (*_sends(64), *_sends(128), *_sends(256), *_OTHER_SENDS), {}),
    Stage("reads", 64, _READS, {}, STORED),
    Stage(
        "many topics",
        MANY,
        (*_sends_of_many(64), *_sends_of_many(256), *_sends_of_many(MANY)),
        {},
    ),
    Stage(
        "SYNC_FLUSH",
        64,
        (Cell("sync, SYNC_FLUSH", "sync", brokers=ROCKETMQ_ONLY),),
        {"flushDiskType": "SYNC_FLUSH"},
    ),
    Stage(
        "just started",
        256,
        (*_sends_of_started(64), *_sends_of_started(128), *_sends_of_started(256)),
        {},
        is_cold=True,
    ),
)
"""Kafka is left out where a topic has 32,768 partitions: it needs two files and two mappings for each."""
QUICK: Final = (
    Stage("ASYNC_FLUSH", 64, _sends(64)[:3], {}),
    Stage("reads", 64, _READS[:2], {}, STORED // 10),
)
