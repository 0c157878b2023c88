"""Kernels over the records of the CommitLog: scan, check and select them, and compute what is derived."""
