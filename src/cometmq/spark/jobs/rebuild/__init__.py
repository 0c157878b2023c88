"""Rebuild ConsumeQueues and Index from the CommitLog."""
