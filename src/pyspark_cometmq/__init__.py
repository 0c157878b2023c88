"""Where Spark finds the source "rocketmq": it looks into every module named ``pyspark_…`` by itself."""

from cometmq.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
