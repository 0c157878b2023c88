"""Verify a store, read-only: every record, every queue entry, every index entry, every table."""

from cometmq.store.verify.whole import State, Verified, verify

__all__ = ["State", "Verified", "verify"]
