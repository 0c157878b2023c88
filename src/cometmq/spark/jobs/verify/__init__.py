"""Checking stores, many and of any size: every byte of each, as ``cometmq.store.verify`` does on one."""

from cometmq.spark.jobs.verify.whole import UNREADABLE, Checked, Place, verify

__all__ = ["UNREADABLE", "Checked", "Place", "verify"]
