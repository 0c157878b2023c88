"""Reads and writes of Spark are signed, and no text of a plan has the secret."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.live import in_thread
from tests.signatures import INNER, USER

from cometmq import Message
from cometmq.blocking import Producer
from cometmq.namesrv.access import NameServerAccess
from cometmq.spark.jobs.replay import replay

KEYS = {"accessKey": USER.access_key, "secretKey": USER.secret_key}


def plans(frame: Any, kinds: tuple[str, ...] = ("simple", "extended", "formatted", "cost")) -> str:
    """Return all that Spark tells of a plan."""
    execution = frame._jdf.queryExecution()
    texts = [execution.explainString(mode(frame, kind)) for kind in kinds]
    texts += [execution.toString(), execution.logical().toJSON(), execution.optimizedPlan().toJSON()]
    return "\n".join(texts)


def mode(frame: Any, kind: str) -> Any:
    """Return Java's name of a kind of plan."""
    java = frame.sparkSession._jvm
    return java.org.apache.spark.sql.execution.ExplainMode.fromString(kind)


def test_reads_and_writes_are_signed_and_their_plans_keep_the_secret(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    access = NameServerAccess(supers=(USER,), closed_routes=True)
    with in_thread(tmp_path / "store", access=access, inner_client_authentication_credentials=INNER) as live:
        with Producer(live.name_server, credentials=USER) as producer:
            producer.send(Message("Orders", b"paid"))
        least = {"namesrv": live.name_server, "retrySeconds": "1"}
        frame = spark.read.format("rocketmq").options(**least, **KEYS, subscribe="Orders").load()
        assert [bytes(row.body) for row in frame.collect()] == [b"paid"]
        frame.select("body").write.format("rocketmq").options(**least, **KEYS, topic="Copy").mode(
            "append"
        ).save()
        copies = spark.read.format("rocketmq").options(**least, **KEYS, subscribe="Copy").load()
        assert copies.count() == 1
        sent = replay(
            spark, tmp_path / "store", live.name_server, rate=1_000, topic="Again", credentials=USER
        )
        assert sent["Orders"] == 1
        stranger = spark.read.format("rocketmq").options(**least, subscribe="Orders").load()
        with pytest.raises(PySparkException, match="username cannot be null"):
            stranger.collect()
        told = plans(frame) + "".join(capfd.readouterr())
    assert USER.secret_key not in told
    assert "rocketmq" in told
