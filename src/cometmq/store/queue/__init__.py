"""ConsumeQueues: where in the CommitLog each message of a queue lies."""
