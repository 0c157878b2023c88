"""Check many stores of any size, every byte of each, as ``cometmq.store.verify`` does for one."""

from cometmq.spark.jobs.verify.whole import UNREADABLE, FindingRow, StoreCheck, verify

__all__ = ["UNREADABLE", "FindingRow", "StoreCheck", "verify"]
