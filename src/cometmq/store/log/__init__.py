"""The CommitLog: append records, write them to files, commit and sync."""
