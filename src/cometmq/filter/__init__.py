"""Message filters: tag expressions, SQL92, and the Bloom filter of groups."""
