"""Read the CommitLog files of stores, on a disk or on any file system that fsspec knows."""
