"""Tasks of the sink killed at random points behind a shuffle: no row may be lost, none doubled.

    python -m tests.campaigns sinks [--rounds 50] [--rows 10000] [--seed N]

Each round writes rows through a shuffle, as a batch and as a stream, on executors that are processes of their
own. A task's first attempts get their rows in orders of their own; most of them fail after some rows, a few
take their executor with them. What is in the topic then must be the rows exactly. In a third write of each
round every attempt makes other rows, as ``rand()`` may: there each row must be in the topic at least once.
"""

import os
import random
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession
from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.progress import tell
from tests.live import in_thread

from cometmq.blocking import Producer, PullConsumer
from cometmq.message import Message
from cometmq.spark import session, started

MASTER: Final = "local-cluster[2,1,1024]"
TASKS: Final = 6
FAILING_ATTEMPTS: Final = 2
"""How many attempts at a task may fail; ``spark.task.maxFailures`` allows more."""
FAILS: Final = 0.6
TAKES_EXECUTOR: Final = 0.03
SENDS_WITHIN_S: Final = 0.5
"""An attempt fails so long, at most, after its last rows: the sink may have sent all of them, or none."""
BATCH: Final = 100
PADDING: Final = b" " + b"x" * 1_000
"""Makes rows so long that Spark's buffers do not hold a whole task's."""
CONF: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.adaptive.enabled": "false",  # it would make one task of so few rows
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH),
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.stage.maxConsecutiveAttempts": "100",  # so many executors may be gone with what they had
    "spark.task.maxFailures": "8",
    "spark.ui.enabled": "false",
}


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, rounds=50, rows=10_000)


def main(options: Namespace) -> list[str]:
    """Run the rounds and print what they found."""
    # Executors do not find this module.
    register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # it has no types
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="cometmq-sinks-") as folder:
        root = Path(folder)
        with (
            in_thread(root / "store") as live,
            session(MASTER, "sinks", work_dir=root / "work", conf=CONF) as spark,
        ):
            campaign = Campaign(spark, live.name_server, root, options.rows)
            for number in range(options.rounds):
                for name, found in campaign.round(number, options.seed + number).items():
                    tell(f"round {number + 1} {name}: {found}")
                    wrong += found.lost + found.doubled
    return [f"{wrong} rows are lost or doubled"] if wrong else []


class Found:
    """What a topic holds of the rows that were written.

    Attributes:
        lost: rows that are not there.
        doubled: messages that are there besides.
    """

    def __init__(self, rows: Counter[bytes], there: Counter[bytes], *, may_differ: bool) -> None:
        self.lost = (rows - there).total()
        self.doubled = 0 if may_differ else (there - rows).total()
        self._messages = there.total()

    def __str__(self) -> str:
        return f"{self._messages:,} messages, {self.lost} lost, {self.doubled} doubled"


class Campaign:
    """A session that writes to topics of one broker."""

    def __init__(self, spark: SparkSession, name_server: str, folder: Path, rows: int) -> None:
        self._spark = spark
        self._name_server = name_server
        self._folder = folder
        self._rows = Counter(b"%d" % (number // 2) for number in range(rows))  # each twice, as it is meant
        with Producer(name_server) as producer:
            producer.send_many(Message("numbers", body + PADDING) for body in self._rows.elements())

    def round(self, number: int, seed: int) -> dict[str, Found]:
        """Write the rows in three ways; return what each topic holds then."""
        kill, change_and_kill = killer(seed), killer(seed, changes=True)
        source = {"namesrv": self._name_server, "subscribe": "numbers", "startingOffsets": "earliest"}
        batch = self._spark.read.format("rocketmq").options(**source).load()
        stream = self._spark.readStream.format("rocketmq").options(**source).load()
        names = {name: f"{name}-{number}" for name in ("batch", "stream", "changing")}
        self._write(shuffled(batch), kill, names["batch"])
        self._write(shuffled(batch), change_and_kill, names["changing"])
        query = started(
            shuffled(stream)
            .mapInArrow(kill, "body binary")
            .writeStream.format("rocketmq")
            .options(namesrv=self._name_server, topic=names["stream"])
            .option("checkpointLocation", str(self._folder / names["stream"]))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return {name: self._found(topic, may_differ=name == "changing") for name, topic in names.items()}

    def _write(self, frame: DataFrame, kill: Callable[..., Iterator[pa.RecordBatch]], topic: str) -> None:
        writer = frame.mapInArrow(kill, "body binary").write.format("rocketmq").mode("append")
        writer.options(namesrv=self._name_server, topic=topic).save()

    def _found(self, topic: str, *, may_differ: bool) -> Found:
        with PullConsumer(self._name_server, "judge") as consumer:
            bodies = [one.body for queue in consumer.queues(topic) for one in consumer.messages(queue)]
        there = Counter(body.partition(b" ")[0] for body in bodies)
        return Found(self._rows, there, may_differ=may_differ)


def shuffled(frame: DataFrame) -> DataFrame:
    """Send rows to other tasks by their hash."""
    return frame.select("body").repartition(TASKS, "body")


def killer(
    seed: int, *, changes: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what passes a task's rows on in another order at each attempt, and ends some attempts.

    Args:
        changes: makes the rows of each attempt other rows.
    """

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        attempt = task.attemptNumber()
        chance = random.Random(f"{seed} {task.taskAttemptId()}")
        bodies: list[bytes] = [body for batch in batches for body in batch.column("body").to_pylist()]  # type: ignore[misc]  # none is null
        chance.shuffle(bodies)
        if changes:
            bodies = [b"%b %f" % (body, chance.random()) for body in bodies]
        fails = attempt < FAILING_ATTEMPTS and chance.random() < FAILS
        end = chance.randrange(len(bodies) + 1) if fails else len(bodies)
        for begin in range(0, end, BATCH):
            yield pa.RecordBatch.from_pydict({"body": bodies[begin : min(begin + BATCH, end)]})
        if fails:
            Event().wait(chance.uniform(0, SENDS_WITHIN_S))  # the sink sends meanwhile
            if chance.random() < TAKES_EXECUTOR:
                os.kill(executor(), signal.SIGKILL)
            raise InterruptedError(f"attempt {attempt} is to fail after {end} rows")

    return passed_on


def executor() -> int:
    """Return the process id of the executor for which this worker works."""
    daemon = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    return daemon if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{daemon}/cmdline").read_bytes() else 0
