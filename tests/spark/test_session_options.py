from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.live import in_thread

from cometmq.blocking import Producer
from cometmq.errors import SettingsError
from cometmq.message import Message
from cometmq.spark import session_options


@contextmanager
def settings(spark: SparkSession, **options: str) -> Iterator[None]:
    names = {f"spark.rocketmq.{name}": text for name, text in options.items()}
    try:
        for name, text in names.items():
            spark.conf.set(name, text)
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


def test_a_session_has_the_options_that_its_settings_name(spark: SparkSession) -> None:
    assert session_options(spark) == {}
    with settings(spark, namesrv="a:1", deadLetterTopic="bad"):
        assert session_options(spark) == {
            "spark.rocketmq.namesrv": "a:1",
            "spark.rocketmq.deadLetterTopic": "bad",
        }


def test_a_setting_that_names_no_option_is_refused(spark: SparkSession) -> None:
    with (
        settings(spark, namesrvs="a:1"),
        pytest.raises(SettingsError, match="option namesrvs is not known: did you mean namesrv"),
    ):
        session_options(spark)


@pytest.mark.timeout(600)  # Spark's start, on a machine that is busy
def test_reads_and_writes_take_them_and_their_own_count_more(spark: SparkSession, tmp_path: Path) -> None:
    with in_thread(tmp_path / "store") as live:
        with Producer(live.name_server) as producer:
            producer.send_many(
                Message("numbers", b"%d" % number, "odd" if number % 2 else "even") for number in range(10)
            )
        with settings(spark, namesrv=live.name_server, subscribe="numbers", topic="copies", limit="3"):
            options = session_options(spark)
        reader = spark.read.format("rocketmq").options(**options)
        assert reader.load().count() == 3
        odd = spark.read.format("rocketmq").options(**options, tags="odd", limit="9").load()
        odd.select("body").write.format("rocketmq").options(**options).mode("append").save()
        stream = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").load()
        query = stream.writeStream.format("memory").queryName("all").trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.table("all").count() == 10
        stored = reader.load(str(tmp_path / "store")).select("topic").collect()
        assert [row["topic"] for row in stored] == ["copies"] * 3
