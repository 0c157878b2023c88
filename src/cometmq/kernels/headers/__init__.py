"""Kernels that parse the headers of requests."""
