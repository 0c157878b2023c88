"""Bulk operations over record bytes: in plain Python from the start, compiled by Numba once loaded.

Page: ``docs/internals/kernels.md``.
"""

from cometmq.extras import require

require("broker", "the package cometmq.kernels", "numpy")

# ruff: noqa: E402  the imports below need numpy; without it their own error would name no remedy

from cometmq.kernels.loading import (
    Loading,
    load,
    load_for,
    load_if_possible,
    load_in_background,
    pulls_for,
    queries_for,
    serving,
)

__all__ = [
    "Loading",
    "load",
    "load_for",
    "load_if_possible",
    "load_in_background",
    "pulls_for",
    "queries_for",
    "serving",
]
