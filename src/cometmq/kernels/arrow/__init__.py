"""Kernels that gather records into Arrow columns."""
