"""The CommitLog: append, write, commit and flush it."""
