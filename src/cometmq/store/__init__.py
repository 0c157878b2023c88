"""The storage engine: CommitLog, ConsumeQueue, Index, and how they survive."""
