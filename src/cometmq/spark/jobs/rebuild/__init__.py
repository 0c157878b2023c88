"""Rebuild ConsumeQueues and Index from the CommitLog, in parallel on Spark."""
