"""Kernels for queries by id and by key."""
