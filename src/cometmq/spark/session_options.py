"""Options for all reads and writes of a session: its settings that begin with ``spark.rocketmq.``

Spark hands a source written in Python the options of the read or write, and nothing of the session: it runs
the source in processes of their own, where no session is active, and offers sources of Java alone a prefix of
their own (``SessionConfigSupport``). So what has set them must hand them over.
"""

from typing import Any

from pyspark.sql import SparkSession

from cometmq.spark.values import SESSION_PREFIX, known_name


def session_options(spark: SparkSession) -> dict[str, Any]:
    """Return the options that are set for a session, for ``options(**session_options(spark))``.

    ::

        spark.conf.set("spark.rocketmq.namesrv", "127.0.0.1:9876")
        spark.read.format("rocketmq").options(**session_options(spark), subscribe="orders").load()

    A read or write passes over those that its kind does not have, and those to which it is given an
    alternative: ``assign``, where ``subscribe`` is the session's. What it is given itself counts more.

    Args:
        spark: a session in this process, or one of Spark Connect.

    Raises:
        SettingsError: a setting with the prefix names no option: names the one that it is like.
    """
    from cometmq.spark import options as of_files  # noqa: PLC0415  a source's processes need none of these three
    from cometmq.spark.live import options as of_reads  # noqa: PLC0415  as above
    from cometmq.spark.sink import sink as of_writes  # noqa: PLC0415  as above

    known = {*of_files.OPTIONS, *of_reads.OPTIONS, *of_writes.OPTIONS}
    found = {name: text for name, text in spark.conf.getAll.items() if name.startswith(SESSION_PREFIX)}
    for name in found:
        known_name(name.removeprefix(SESSION_PREFIX), sorted(known))
    return found
