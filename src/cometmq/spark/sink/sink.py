"""Send rows as messages, in batches, from Spark's tasks.

A task that is retried, or a micro-batch that is repeated after a crash, sends its messages again: each with
the same idempotence key as before, whatever the order of its rows (``row_keys``). So brokers store it once. A
row that differs between two attempts (a plan with randomness, or one that moves rows from partition to
partition) is stored in each of its forms.

A batch write in a ``foreachBatch`` function is repeated with its micro-batch. What is the same then is the
query, the number of the micro-batch, and how many actions the function had begun before: Spark numbers all
actions of an application, and its tasks know their own number and that of the micro-batch. If other queries
begin actions meanwhile, the distance differs, and rows are doubled, as before; they are never lost.

======================  ========================================================================
option                  meaning
======================  ========================================================================
namesrv                 name servers, ``host:port``, several joined by ``;``
topic                   for rows that name none
path                    the same: the argument of ``save()`` or ``start()``
group                   producer group
retrySeconds            how long sends that fail are retried; 60 when not given
idempotenceKey          a column that names each row: of those with the same one in a topic one is stored
onBadRow                what happens to rows that make no message: ``fail`` (when not given),
                        ``drop`` or ``deadLetter``
deadLetterTopic         where ``onBadRow`` ``deadLetter`` sends them, with the reason
accessKey, secretKey    the user who signs the requests: see ``spark/live/access.py``
tls, tlsCaFile …        TLS: see there
======================  ========================================================================
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from cometmq.client.producer.producer import Producer
from cometmq.errors import CometMQError, NetworkError, PartlySent, SettingsError
from cometmq.logs import get_logger
from cometmq.message import Message, MessageQueue
from cometmq.net.tls.client import TLS
from cometmq.spark import values
from cometmq.spark.live.access import ACCESS_OPTIONS, credentials_of_options, tls_of_options
from cometmq.spark.live.options import RETRY_SECONDS, name_servers
from cometmq.spark.live.retries import is_retriable, with_retries
from cometmq.spark.sink.bad_rows import BadRows, OnBadRow
from cometmq.spark.sink.row_keys import RowKeys
from cometmq.spark.sink.rows import MessageRow, rows_of
from cometmq.spark.values import OptionTexts
from cometmq.wire.acl import Credentials

OPTIONS: Final = (
    "namesrv",
    "topic",
    "path",
    "group",
    "retrySeconds",
    "idempotenceKey",
    "onBadRow",
    "deadLetterTopic",
    *ACCESS_OPTIONS,
)
ALTERNATIVES: Final = (("topic", "path"),)
PRODUCER_GROUP: Final = "cometmq-spark-sink"
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
ACTION: Final = "spark.sql.execution.id"
ROOT_ACTION: Final = "spark.sql.execution.root.id"
"""The number of the action that the running one is a part of: in ``foreachBatch`` that of the micro-batch."""

log = get_logger(__name__)

FindQueue = Callable[[Producer, str, int], Awaitable[MessageQueue]]


class SinkOptions(NamedTuple):
    """The options of a write, checked; ``topic`` is None if each row names one."""

    name_servers: tuple[str, ...]
    topic: str | None
    group: str
    retry_s: int
    key_column: str | None = None
    on_bad_row: OnBadRow = OnBadRow.FAIL
    dead_letter_topic: str | None = None
    tls: TLS | None = None
    credentials: Credentials | None = None

    def producer(self) -> Producer:
        """Return a producer that sends as the options say."""
        servers = ";".join(self.name_servers)
        return Producer(servers, self.group, credentials=self.credentials, tls=self.tls)


@dataclass
class Sent(WriterCommitMessage):
    """The result of a task.

    Attributes:
        messages: how many it sent.
        bad_rows: how many rows are no messages, and were dropped or sent as dead letters.
    """

    messages: int
    bad_rows: int = 0


def parse(options: Mapping[str, str]) -> SinkOptions:
    """Check the options of a write. Raises SettingsError that names option, value, limit and remedy."""
    texts = OptionTexts(options, OPTIONS, alternatives=ALTERNATIVES)
    if "namesrv" not in texts:
        raise SettingsError("option namesrv is missing: messages are written to live topics, not to files")
    on_bad_row = texts.read("onBadRow", _on_bad_row, OnBadRow.FAIL)
    dead_letter_topic = _one_topic(texts, "deadLetterTopic", "all dead letters go there")
    if (on_bad_row == OnBadRow.DEAD_LETTER) != (dead_letter_topic is not None):
        raise SettingsError(
            f"option onBadRow {on_bad_row}: deadLetter needs the option deadLetterTopic, and only it does"
        )
    return SinkOptions(
        name_servers=name_servers("namesrv", texts["namesrv"]),
        topic=_topic(texts),
        group=texts.read("group", values.group_name, PRODUCER_GROUP),
        retry_s=texts.read("retrySeconds", values.number, RETRY_SECONDS),
        key_column=texts.read("idempotenceKey", values.column, None),
        on_bad_row=on_bad_row,
        dead_letter_topic=dead_letter_topic,
        tls=tls_of_options(texts),
        credentials=credentials_of_options(texts),
    )


def _topic(texts: OptionTexts) -> str | None:
    if all(name in texts for name in ("topic", "path")):
        raise SettingsError(
            f"options topic {texts['topic']} and path {texts['path']}: give one; save() and start() set path"
        )
    return _one_topic(texts, "path" if "path" in texts else "topic", "and others in a column topic")


def _one_topic(texts: OptionTexts, name: str, hint: str) -> str | None:
    none: frozenset[str] = frozenset()
    topics = texts.read(name, values.topics, none)
    if len(topics) > 1:
        raise SettingsError(f"option {name} {texts[name]}: give one, {hint}")
    return next(iter(topics), None)


def _on_bad_row(name: str, text: str) -> OnBadRow:
    for known in OnBadRow:
        if text.lower() == known.lower():
            return known
    raise SettingsError(f"option {name} {text}: give {', '.join(OnBadRow)}")


class BatchWriter(DataSourceArrowWriter):
    """Sends the rows of a batch DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._write_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:  # type: ignore[override] # Spark hands it Arrow
        """Send the rows of a task. Raises like ``send``."""
        task = _task()
        return send(self._options, f"{self._name(task)}-{task.partitionId()}", iterator)

    def _name(self, task: TaskContext) -> str:
        """Return what names the write: the same if the micro-batch that it is a part of is repeated."""
        query, batch, action, root = map(task.getLocalProperty, (QUERY_ID, BATCH_ID, ACTION, ROOT_ACTION))
        if query is None or batch is None or action is None or root is None or action == root:
            return f"{self._write_id}-0"
        return f"{query}-{batch}-write-{int(action) - int(root)}"

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many rows are no messages."""
        _log_bad_rows("the write", messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of each micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:  # type: ignore[override] # Spark hands it Arrow
        """Send the rows of a task. Raises like ``send``."""
        task = _task()
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        return send(self._options, f"{query}-{batch}-{task.partitionId()}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Log how many rows of a micro-batch are no messages."""
        _log_bad_rows(f"micro-batch {batchId}", messages)


def send(options: SinkOptions, write: str, batches: Iterator[pa.RecordBatch]) -> Sent:
    """Send rows, and wait until brokers have stored them all.

    Args:
        write: names the task: the same in each of its attempts, different for any other task.

    Raises:
        MessageIllegal, IllegalName: a row is no message, and ``onBadRow`` is ``fail``.
        SettingsError: there is no such queue.
        NetworkError: sends failed for ``retrySeconds``.
        RemoteError: a broker refuses the request.
    """
    return asyncio.run(_send(options, write, batches))


async def _send(options: SinkOptions, write: str, batches: Iterator[pa.RecordBatch]) -> Sent:
    keys = RowKeys(write, options.key_column)
    bad = BadRows(options.dead_letter_topic, write)
    on_bad = None if options.on_bad_row == OnBadRow.FAIL else bad.add
    sent = 0
    async with options.producer() as producer:
        for batch in batches:
            rows = rows_of(batch, options.topic, keys.key, on_bad)
            letters = [MessageRow(letter, None) for letter in bad.take_letters()]
            await send_rows(producer, [*rows, *letters], options.retry_s)
            sent += len(rows)
    return Sent(sent, bad.count)


async def queue_with_id(producer: Producer, topic: str, queue_id: int) -> MessageQueue:
    """Find the one queue of a topic with this id. Raises SettingsError if there is none, or several."""
    found = [queue for queue in await producer.queues(topic) if queue.queue_id == queue_id]
    if len(found) != 1:
        brokers = ", ".join(queue.broker_name for queue in found) or "no broker"
        raise SettingsError(
            f"topic {topic}: queue {queue_id} is on {brokers}, it must be on one: use sharding_key"
        )
    return found[0]


async def send_rows(
    producer: Producer, rows: Sequence[MessageRow], retry_s: int, find_queue: FindQueue = queue_with_id
) -> None:
    """Send rows, and retry those that fail; the order within a sharding key, or queue, is kept.

    Args:
        retry_s: how long to retry.
        find_queue: returns the queue for rows with a ``queue_id``, by topic and queue id.

    Raises like ``send``.
    """
    left = [row.message for row in rows]
    queue_ids = {id(row.message): row.queue_id for row in rows}

    async def send_left() -> None:
        nonlocal left
        places = {(one.topic, queue_id) for one in left if (queue_id := queue_ids[id(one)]) is not None}
        queues = {place: await find_queue(producer, *place) for place in places}

        def queue_of(message: Message) -> MessageQueue | None:
            queue_id = queue_ids[id(message)]
            return None if queue_id is None else queues[message.topic, queue_id]

        try:
            await producer.send_many(left, queue_of if queues else None)
        except PartlySent as error:
            failed = [
                (message, outcome)
                for message, outcome in zip(left, error.outcomes, strict=True)
                if isinstance(outcome, CometMQError)
            ]
            left = [message for message, _ in failed]
            for _, outcome in failed:
                if not is_retriable(outcome):
                    raise outcome from error
            raise NetworkError(str(error)) from error

    await with_retries("messages cannot be sent", retry_s, send_left)


def _log_bad_rows(what: str, messages: Iterable[WriterCommitMessage | None]) -> None:
    count = sum(sent.bad_rows for sent in messages if isinstance(sent, Sent))
    if count:
        log.warning("%s: %d rows made no message, see the logs of the executors", what, count)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "only tasks write"
    return task
