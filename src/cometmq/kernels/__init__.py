"""Bulk operations over record bytes: plain Python at once, compiled by Numba when loaded."""

from cometmq.extras import require

require("broker", "the package cometmq.kernels", "numpy")

# ruff: noqa: E402  what is imported needs numpy, and would say less where it is missing

from cometmq.kernels.loading import (
    Loading,
    current,
    load,
    load_for,
    load_if_possible,
    load_in_background,
    serving,
)

__all__ = [
    "Loading",
    "current",
    "load",
    "load_for",
    "load_if_possible",
    "load_in_background",
    "serving",
]
