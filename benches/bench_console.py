"""How long the console takes to answer where a broker has 1,000 topics of 8 queues and 100 groups.

    python -m benches.bench_console

Each group has committed offsets in all queues of ten topics. Broker and console are processes of their own,
on loopback; a request is one GET, from its first byte sent to its last byte read. Their processor time says
what it takes on a machine that others use, too. Limit: 500 ms.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benches import kit

from cometmq.admin.topics import TopicAdmin
from cometmq.wire.bodies import TopicConfigs, encode
from cometmq.wire.bodies.group import GroupConfig, GroupConfigList
from cometmq.wire.bodies.topic import TopicConfig
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import UpdateConsumerOffsetHeader

TOPICS, QUEUES, GROUPS, TOPICS_OF_GROUP = 1_000, 8, 100, 10
TIMES = 9
PATHS = ("/", "/topics", "/topics?sort=lag", "/groups", "/topics/topic-0007", "/groups/group-007")


@contextmanager
def command(*words: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Run a command of ours; yield its process id, and what it prints when it is ready."""
    path = Path(sys.executable).with_name("cometmq")
    process = subprocess.Popen(
        [path, *words, "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


async def fill(name_server: str) -> None:
    """Create the topics, the groups and their offsets."""
    topics = [
        TopicConfig(topic=f"topic-{number:04}", read_queue_count=QUEUES, write_queue_count=QUEUES)
        for number in range(TOPICS)
    ]
    groups = [GroupConfig(group=f"group-{number:03}") for number in range(GROUPS)]
    offsets = [
        UpdateConsumerOffsetHeader(group.group, topics[place * TOPICS_OF_GROUP + each].topic, queue_id, 0)
        for place, group in enumerate(groups)
        for each in range(TOPICS_OF_GROUP)
        for queue_id in range(QUEUES)
    ]
    async with TopicAdmin(name_server) as admin:
        (broker,) = (await admin.masters()).values()
        for code, body in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, encode(TopicConfigs(topics))),
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, encode(GroupConfigList(groups))),
        ):
            await admin.ask(broker, code, body=body, timeout_ms=60_000)
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await asyncio.gather(*(admin.ask(broker, code, header) for header in offsets))


def get(url: str) -> float:
    """Return how long a GET takes, in ms."""
    begin = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        answer.read()
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    """Print the median and the longest time of each view, and the processor times."""
    with TemporaryDirectory() as directory, command("dev", "--store", directory) as (broker, dev):
        asyncio.run(fill(dev["name_server"]))
        with command("console", "--namesrv", dev["name_server"]) as (console, ready):
            print(f"{'view':<22} {'median ms':>10} {'longest ms':>11} {'console cpu':>12} {'broker cpu':>11}")
            for path in PATHS:
                url = f"http://{ready['console']}{path}"
                get(url)
                before = kit.cpu_s(console), kit.cpu_s(broker)
                took = [get(url) for _ in range(TIMES)]
                used = kit.cpu_s(console) - before[0], kit.cpu_s(broker) - before[1]
                print(
                    f"{path:<22} {statistics.median(took):>10.0f} {max(took):>11.0f} "
                    f"{1_000 * used[0] / TIMES:>12.0f} {1_000 * used[1] / TIMES:>11.0f}"
                )


if __name__ == "__main__":
    main()
