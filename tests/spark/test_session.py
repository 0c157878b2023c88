import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.conftest import SHORT_JOBS
from tests.live import in_thread

from cometmq.blocking import Producer
from cometmq.errors import SettingsError
from cometmq.message import Message
from cometmq.spark import session, session_options

READ_A_STORE = f"""
import sys
from pathlib import Path
from typing import Any
from cometmq.spark import session, session_options

started = session("local[2]", work_dir=Path("work"), conf={SHORT_JOBS!r})
print(started.read.format("rocketmq").load(sys.argv[1]).count())
numbers = started.range(10_000).coalesce(1)
numbers.mapInArrow(lambda batches: (batch for batch in batches for _ in range(1_000)), "id long").take(1)
"""


def test_runs_on_this_interpreter_and_in_utc(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_java_reads_what_python_sends_without_arrows_checks(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    system = java.java.lang.System
    assert system.getProperty("arrow.enable_unsafe_memory_access") == "true"
    assert system.getProperty("arrow.enable_null_check_for_get") == "false"


def test_the_environment_is_left_as_it_was(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    before = dict(os.environ)
    assert session() is spark
    assert dict(os.environ) == before


def test_a_second_call_gives_the_same_session_and_leaves_its_settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    again = session(conf={"spark.sql.ansi.enabled": "true"})
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.session.timeZone") == "Asia/Shanghai"
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.timeout(600)
def test_streams_to_topics_start_in_any_thread_that_asks_for_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    def start() -> StreamingQuery:
        assert session() is spark
        rows = spark.readStream.format("rate").load().selectExpr("string(value) AS body")
        return rows.writeStream.format("rocketmq").option("checkpointLocation", str(tmp_path)).start()

    with ThreadPoolExecutor(1) as thread, pytest.raises(CapturedException, match="option namesrv is missing"):
        thread.submit(start).result().awaitTermination()


def test_what_a_cluster_of_this_machine_leaves_is_in_a_home_of_its_own(tmp_path: Path) -> None:
    home = import_module("cometmq.spark.session")._spark_home(tmp_path / "home", sys.executable)
    assert (home / "bin" / "spark-submit").is_file() and (home / "jars").is_dir()
    assert not (home / "work").exists()


def test_pythons_that_have_pyspark_do_not_import_it_from_a_zip(spark: SparkSession, tmp_path: Path) -> None:
    def origin(_: Any) -> str | None:
        return import_module("pyspark").__file__

    assert spark.sparkContext.range(1).map(origin).collect() == [pyspark.__file__]
    another = import_module("cometmq.spark.session")._spark_home(tmp_path / "home", "another-python")
    assert (another / "python" / "lib" / "pyspark.zip").is_file()


def test_workers_have_unix_sockets_where_the_path_is_short_enough() -> None:
    settings = import_module("cometmq.spark.session")._worker_settings
    longest = "/" + 59 * "x"  # and 43 bytes for a socket's own name make 103
    short, long = settings(Path(longest), sys.executable), settings(Path(longest + "x"), sys.executable)
    assert short["spark.python.unix.domain.socket.dir"] == longest
    assert long == {"spark.python.daemon.module": "cometmq.spark.daemon"}
    assert settings(Path(longest), "another-python") == {}


# Java and Spark are started for it alone, which takes ten seconds. The kernels are those of other tests: to
# compile them would take most of a minute, and what that leaves is judged in tests/kernels/compiling.
@pytest.mark.timeout(600)
def test_starts_without_java_on_path_and_leaves_no_file(golden: Mapping[str, Path], tmp_path: Path) -> None:
    tools, temporary = tmp_path / "tools", tmp_path / "temporary"
    tools.mkdir()
    temporary.mkdir()
    for name in ("bash", "dirname", "env", "sh"):
        (tools / name).symlink_to(shutil.which(name) or name)
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    own = {"PATH": str(tools), "TMPDIR": str(temporary), "HOME": str(tmp_path), "XDG_CACHE_HOME": caches}
    answer = subprocess.run(
        [sys.executable, "-c", READ_A_STORE, str(golden["store-killed"])],
        env=own,
        cwd=temporary,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) > 500
    assert "Traceback" not in answer.stderr
    assert [path.relative_to(temporary).as_posix() for path in temporary.rglob("*")] == ["work"]


@pytest.mark.parametrize(
    ("master", "partitions"),
    [("local", 2), ("local[3]", 6), ("local[2, 4]", 4), ("local[*]", 2 * (os.cpu_count() or 1))],
)
def test_shuffles_on_one_machine_have_two_parts_for_each_core(master: str, partitions: int) -> None:
    shuffle = import_module("cometmq.spark.session")._shuffle
    assert shuffle(master) == {"spark.sql.shuffle.partitions": str(partitions)}


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn"])
def test_shuffles_on_a_cluster_are_as_spark_has_them(master: str) -> None:
    assert import_module("cometmq.spark.session")._shuffle(master) == {}


TERMINATED = """
import os
import signal
import sys
from pathlib import Path
from cometmq.spark import session, session_options

session("local[1]", work_dir=Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGTERM)
print("still there")
"""


@pytest.mark.timeout(600)  # Java is started for it alone
def test_a_program_that_is_terminated_leaves_no_file(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TERMINATED, str(tmp_path)], capture_output=True, check=False, timeout=500
    )
    assert (ran.returncode, ran.stdout) == (128 + signal.SIGTERM, b"")
    assert list(tmp_path.iterdir()) == []


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
