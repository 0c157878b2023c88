"""Report pages of three stores, to be looked at: one topic, fifty topics, hot keys and queues.

    python -m tests.campaigns report [DIRECTORY]

Whoever changes the page looks at each: wide and narrow, light and dark, and as it is printed.
"""

import json
import math
import random
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.format.properties import encode
from cometmq.io.clock import ManualClock
from cometmq.spark import session
from cometmq.spark.jobs.report.page import page
from cometmq.spark.jobs.report.report import report
from cometmq.store import MessageStore
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings

BEGIN: Final = 1_769_850_000_000
"""2026-01-31 09:00 UTC."""
HOUR_MS: Final = 3_600_000
HOST: Final = pack_host("127.0.0.1", 10911)
SETTINGS: Final = StoreSettings(
    mapped_file_size_commit_log=16 << 20,
    mapped_file_size_consume_queue=400_000,
    max_hash_slot_num=10_000,
    max_index_num=40_000,
)
STEPS: Final = 400
"""Of each store's time: messages of one step are stored together."""


class Traffic(NamedTuple):
    """What comes to a topic.

    Attributes:
        messages: in all.
        hot: which part of them has the same key, and lies in queue 0.
    """

    topic: str
    messages: int
    queues: int = 8
    body: int = 300
    hot: float = 0
    hot_key: str = ""


FIFTY: Final = (
    Traffic("%RETRY%billing", 700, queues=1),
    Traffic("payments.settlement-reconciliation_eu-west-1_daily%batch_of_the_night", 4_000),
    *(
        Traffic(f"{kind}_{place:02}", 12_000 // place)
        for place in range(1, 17)
        for kind in ("orders", "clicks", "mail")
    ),
)
STORES: Final = {
    "one-topic": (2.4, (Traffic("orders", 20_000),)),
    "fifty-topics": (75, FIFTY),
    "skewed": (
        20,
        (
            Traffic("orders", 12_000, hot=0.4, hot_key="customer-4711"),
            Traffic("clicks", 15_000),
            Traffic("mail", 3_000, queues=4, hot=0.7, hot_key="</script><b>newsletter</b>"),
        ),
    ),
}


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("directory", nargs="?", type=Path, default=Path("build/report-pages"))


def main(options: Namespace) -> list[str]:
    """Write the pages and print where they are."""
    target = options.directory
    target.mkdir(parents=True, exist_ok=True)
    spark = session("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        for name, (hours, traffic) in STORES.items():
            store = Path(folder) / name / "store"
            fill(store, hours, traffic)
            path = target / f"{name}.html"
            path.write_text(page(report(spark, [store])), encoding="utf-8")
            print(f"{path}: {path.stat().st_size:,} bytes")
    return []


def fill(place: Path, hours: float, traffic: tuple[Traffic, ...]) -> None:
    """Build a store of some hours of traffic, with a group that has consumed half of each topic."""
    chance, clock = random.Random(hours), ManualClock(BEGIN)
    with MessageStore.open(place, SETTINGS, clock=clock) as store:
        for step in range(STEPS):
            for one in traffic:
                store.append(list(messages(one, step, clock.now_ms(), chance)))
            clock.advance(round(hours * HOUR_MS / STEPS))
        committed = {
            f"{one.topic}@billing": {
                queue_id: store.max_queue_offset(one.topic, queue_id) // 2 for queue_id in range(one.queues)
            }
            for one in traffic[:12]
        }
    path = layout.config_path(place, "consumerOffset")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"offsetTable": committed}))


def messages(traffic: Traffic, step: int, now_ms: int, chance: random.Random) -> Iterator[NewMessage]:
    """Build the messages of one step: more of them at noon than at night, and slower when there are many."""
    wave = 1 + 0.8 * math.sin(2 * math.pi * (now_ms % (24 * HOUR_MS)) / (24 * HOUR_MS) - math.pi / 2)
    wave *= 1 + 0.3 * math.sin(step / 7 + len(traffic.topic))
    for _ in range(round(traffic.messages * wave / STEPS + chance.random() - 0.5)):
        is_hot = chance.random() < traffic.hot
        key = traffic.hot_key if is_hot else f"key-{chance.randrange(10**6)}"
        latency_ms = round(chance.lognormvariate(1 + wave / 2, 0.8))
        yield NewMessage(
            traffic.topic,
            0 if is_hot else chance.randrange(traffic.queues),
            b"x" * round(traffic.body * chance.lognormvariate(0, 0.6)),
            encode({"KEYS": key}),
            now_ms - latency_ms,
            HOST,
            HOST,
        )
