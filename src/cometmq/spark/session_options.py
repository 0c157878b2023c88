"""Options for all reads and writes of a session: its settings that begin with ``spark.rocketmq.``.

Spark passes a source written in Python the options of the read or write, and no settings of the session: the
source runs in processes of its own, without an active session, and only sources in Java can have a prefix of
settings (``SessionConfigSupport``). So the program passes the session's settings as options.
"""

from typing import Any

from pyspark.sql import SparkSession

from cometmq.spark.values import SESSION_PREFIX, known_name


def session_options(spark: SparkSession) -> dict[str, Any]:
    """Return the options that a session has set, for ``options(**session_options(spark))``.

    ::

        spark.conf.set("spark.rocketmq.namesrv", "127.0.0.1:9876")
        spark.read.format("rocketmq").options(**session_options(spark), subscribe="orders").load()

    A read or write ignores those that its kind does not have, and those of which it sets an alternative:
    ``assign`` where the session sets ``subscribe``. Its own options have precedence.

    Args:
        spark: a session in this process, or one of Spark Connect.

    Raises:
        SettingsError: a setting with the prefix is no option; suggests a similar one.
    """
    from cometmq.spark import options as of_files  # noqa: PLC0415  a source's processes need none of these three
    from cometmq.spark.live import options as of_reads  # noqa: PLC0415  as above
    from cometmq.spark.sink import sink as of_writes  # noqa: PLC0415  as above

    known = {*of_files.OPTIONS, *of_reads.OPTIONS, *of_writes.OPTIONS}
    found = {name: text for name, text in spark.conf.getAll.items() if name.startswith(SESSION_PREFIX)}
    for name in found:
        known_name(name.removeprefix(SESSION_PREFIX), sorted(known))
    return found
