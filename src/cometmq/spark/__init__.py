"""The data pipeline: Spark reads stores and topics with PySpark alone, no JAR to find."""

from cometmq.spark.session import session

__all__ = ["session"]
