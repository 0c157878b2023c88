"""Message filters: tag expressions, SQL92, and the Bloom filter of groups.

Page: ``docs/internals/cluster.md``.
"""
