"""The data pipeline: Spark reads stores and topics with PySpark alone, no JAR to find."""

from cometmq.extras import require

require("spark", "the package cometmq.spark")

# ruff: noqa: E402  what is imported needs Spark, and would say less where it is missing

from cometmq.spark.duplicates import drop_duplicates
from cometmq.spark.session import session
from cometmq.spark.starting import started

__all__ = ["drop_duplicates", "session", "started"]
