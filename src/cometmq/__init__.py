"""CometMQ: a RocketMQ-compatible message log in Python, with its data pipeline on Spark."""

__version__ = "0.1.0"
