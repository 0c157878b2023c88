"""Histories of partitions: lines between brokers and their controller are cut, brokers killed and stopped.

    python -m tests.campaigns partitions [--histories 100] [--brokers 3] [--steps 4] [--seed N]

RocketMQ's controller and CometMQ's brokers run on hosts of their own (network namespaces: needs root and
Linux). Producers reach each broker all the time, and note each acknowledgement with the broker and the place
of the message. After a history all is healed; once all brokers are in sync, the log is read. Each message
that was acknowledged must be at its place, in order, and each epoch must have had one master.
"""

import asyncio
import os
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tests.campaigns.kit.options import add_numbers
from tests.campaigns.sets.partitions_cluster import NAME_SERVER, Cluster
from tests.campaigns.sets.partitions_history import Size, draw
from tests.campaigns.sets.partitions_judge import Verdict, judge
from tests.campaigns.sets.partitions_load import QUEUES, Load, read_all

from cometmq.admin.topics import TopicAdmin

OWN_NAMESPACE = "COMETMQ_OWN_NAMESPACE"
PROGRAM = ("-m", "tests.campaigns", "partitions")
MORE_SENDS = 20
"""So many sends must be acknowledged once all is healed."""


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, histories=100, brokers=Size().brokers, steps=Size().steps)


def main(options: Namespace) -> list[str]:
    """Run the histories in a network namespace of their own, and print what each showed."""
    if OWN_NAMESPACE not in os.environ:
        os.environ[OWN_NAMESPACE] = "1"
        arguments = [part for name, value in vars(options).items() for part in (f"--{name}", str(value))]
        os.execvp("unshare", ["unshare", "--net", sys.executable, *PROGRAM, *arguments])
    size = Size(brokers=options.brokers, steps=options.steps)
    with tempfile.TemporaryDirectory(prefix="cometmq-partitions-") as folder:
        wrong = asyncio.run(run(Path(folder), size, options.histories, options.seed))
    return [f"{wrong} histories are wrong"] if wrong else []


async def run(folder: Path, size: Size, histories: int, seed: int) -> int:
    """Run histories on one set of brokers, each with a topic of its own; return how many were wrong."""
    wrong, acknowledged, begin = 0, 0, time.monotonic()
    with Cluster(folder, size.brokers) as cluster:
        await cluster.settle()
        for number in range(histories):
            verdict = await one_history(cluster, f"history-{number}", seed + number, size)
            acknowledged += verdict.acknowledged
            wrong += not verdict.is_right
            seconds = time.monotonic() - begin
            print(f"{seconds:5.0f} s  history {number + 1}: {described(verdict)}", flush=True)
        await cluster.connections.close()
    print(f"{acknowledged:,} sends acknowledged", flush=True)
    return wrong


async def one_history(cluster: Cluster, topic: str, seed: int, size: Size) -> Verdict:
    """Run one history; return what it showed."""
    async with TopicAdmin(NAME_SERVER) as admin:
        await admin.create(topic, queues=QUEUES)
    async with Load(topic) as load:
        await load.more(MORE_SENDS)
        for step in draw(seed, size):
            print(f"         {step.text(cluster.names)}", flush=True)
            await asyncio.sleep(step.pause_s)
            await cluster.carry_out(step)
        await asyncio.sleep(size.pause_s_max)
        await cluster.settle()
        await load.more(MORE_SENDS)
    replicas = await cluster.settle()
    assert replicas.master_address is not None
    verdict = judge(load.acknowledged, await read_all(topic), await cluster.epochs(replicas.master_address))
    print(f"         {load.failed} attempts failed, epoch {replicas.master_epoch}", flush=True)
    return verdict


def described(verdict: Verdict) -> str:
    """Describe what a history showed."""
    text = f"{verdict.acknowledged:,} acknowledged, {len(verdict.lost)} lost, {verdict.doubled} doubled"
    return text if verdict.is_right else f"{text}: WRONG: {verdict}"
