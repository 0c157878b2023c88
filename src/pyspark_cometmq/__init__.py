"""The source "rocketmq" for Spark, which looks for ``DefaultSource`` in modules named ``pyspark_…``."""

from cometmq.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
