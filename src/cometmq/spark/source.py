"""The Spark source "rocketmq": the records of a store's CommitLog files, with no broker, or live topics.

::

    spark.read.format("rocketmq").option("topic", "orders").load("store")
    spark.readStream.format("rocketmq").options(namesrv="127.0.0.1:9876", subscribe="orders").load()

``options`` and ``live.options`` list what can be asked for, ``schema`` the columns.

Finding the source, making it, planning its tasks, running them: for each Spark starts Python, one after the
other, and each imports this module. So what a step needs is imported by its method.
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
"""The option that asks for live topics instead of files."""


class RocketMQSource(DataSource):
    """What Spark asks for a schema and a reader. Both raise SettingsError for what cannot be used."""

    @classmethod
    def name(cls) -> str:
        """Give the name to be used in ``format(…)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Give the columns that the options ask for."""
        from cometmq.spark.schema import COLUMNS, spark_schema
        from cometmq.spark.worker import settle

        if is_live(self.options):
            from cometmq.spark.live.options import parse as parse_live

            columns = parse_live(self.options).columns
        else:
            from cometmq.spark.options import parse

            columns = parse(self.options).columns
        settle()
        return spark_schema(columns or COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader of the columns in ``schema``: of files, or of live topics."""
        from cometmq.spark.schema import columns_of

        if is_live(self.options):
            from cometmq.spark.live.batch import reader_of
            from cometmq.spark.live.options import parse as parse_live

            return reader_of(parse_live(self.options, stream=False), columns_of(schema))
        from cometmq.spark.files.log_reader import reader_of as reader_of_files
        from cometmq.spark.options import parse

        return reader_of_files(parse(self.options), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Give the reader of what comes to live topics."""
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
        """Give what sends the rows of a frame."""
        from cometmq.errors import SettingsError
        from cometmq.spark.sink import sink
        from cometmq.spark.sink.rows import check_columns

        options = sink.parse(self.options)
        if overwrite:
            raise SettingsError('mode("overwrite"): topics can only be added to, use mode("append")')
        check_columns(schema, options.topic, options.key_column)
        return sink.BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, ARG002  Spark's
        """Give what sends the rows of micro-batches; in each mode of output they are added."""
        from cometmq.spark.sink import sink
        from cometmq.spark.sink.rows import check_columns

        options = sink.parse(self.options)
        check_columns(schema, options.topic, options.key_column)
        return sink.StreamWriter(options)


def is_live(options: Mapping[str, str]) -> bool:
    """Whether a read is one of live topics: name servers are given, or a session's and no path."""
    from cometmq.spark.values import split_session

    own, of_session = split_session({name.lower(): text for name, text in options.items()})
    return NAMESRV in own or (NAMESRV in of_session and not own.keys() & {"path", "paths"})
