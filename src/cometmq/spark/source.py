"""The Spark source "rocketmq": CommitLog files of a store, without a broker, or live topics.

::

    spark.read.format("rocketmq").option("topic", "orders").load("store")
    spark.readStream.format("rocketmq").options(namesrv="127.0.0.1:9876", subscribe="orders").load()

``options`` and ``live.options`` list the options, ``schema`` the columns.

Spark starts a Python process for each step: find the source, create it, plan its tasks, run them. Each
imports this module, so a method imports what its step needs.
"""

# ruff: noqa: PLC0415  each step imports what it needs, see above

from collections.abc import Mapping
from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

NAMESRV: Final = "namesrv"
"""The option that selects live topics instead of files."""


class RocketMQSource(DataSource):
    """The source "rocketmq". Its methods raise SettingsError for wrong options and schemas."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(…)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns that the options select."""
        from cometmq.spark.schema import COLUMNS, spark_schema
        from cometmq.spark.worker import tune_worker

        if is_live(self.options):
            from cometmq.spark.live.options import parse as parse_live

            columns = parse_live(self.options).columns
        else:
            from cometmq.spark.options import parse

            columns = parse(self.options).columns
        tune_worker()
        return spark_schema(columns or COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader of files or live topics, for the columns in ``schema``."""
        from cometmq.spark.schema import columns_of

        if is_live(self.options):
            from cometmq.spark.live.batch import reader_of
            from cometmq.spark.live.options import parse as parse_live

            return reader_of(parse_live(self.options, stream=False), columns_of(schema))
        from cometmq.spark.files.log_reader import reader_of as reader_of_files
        from cometmq.spark.options import parse

        return reader_of_files(parse(self.options), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the stream reader of live topics."""
        from cometmq.errors import SettingsError
        from cometmq.spark.live.options import parse
        from cometmq.spark.live.stream import LiveStreamReader
        from cometmq.spark.schema import columns_of

        if not is_live(self.options):
            raise SettingsError(
                "option namesrv is missing: streams are read from live topics, not from files"
            )
        return LiveStreamReader(parse(self.options, stream=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for a batch DataFrame."""
        from cometmq.errors import SettingsError
        from cometmq.spark.sink import sink
        from cometmq.spark.sink.rows import check_columns

        options = sink.parse(self.options)
        if overwrite:
            raise SettingsError('mode("overwrite"): topics can only be added to, use mode("append")')
        check_columns(schema, options.topic, options.key_column)
        return sink.BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, ARG002  Spark's
        """Return the writer for micro-batches; in each output mode their rows are appended."""
        from cometmq.spark.sink import sink
        from cometmq.spark.sink.rows import check_columns

        options = sink.parse(self.options)
        check_columns(schema, options.topic, options.key_column)
        return sink.StreamWriter(options)


def is_live(options: Mapping[str, str]) -> bool:
    """Check whether a read is of live topics: it sets ``namesrv``, or the session does and it has no path."""
    from cometmq.spark.values import split_session

    own, of_session = split_session({name.lower(): text for name, text in options.items()})
    return NAMESRV in own or (NAMESRV in of_session and not own.keys() & {"path", "paths"})
