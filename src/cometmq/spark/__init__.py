"""The data pipeline: Spark reads stores and topics with PySpark alone, no JAR to find."""

from cometmq.spark.duplicates import drop_duplicates
from cometmq.spark.session import session
from cometmq.spark.starting import started

__all__ = ["drop_duplicates", "session", "started"]
