"""The broker that the tests of live topics use, for those of the sink."""

from tests.spark.live.conftest import orders, topics

__all__ = ["orders", "topics"]
