"""Bulk operations over record bytes: plain Python at once, compiled by Numba when loaded."""

from cometmq.kernels.loading import Loading, current, load, load_for, load_in_background

__all__ = ["Loading", "current", "load", "load_for", "load_in_background"]
