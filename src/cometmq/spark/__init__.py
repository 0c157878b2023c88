"""The data pipeline: read and write stores and topics with PySpark alone, without a JAR.

Importing it also makes Spark's own sessions find the source: see ``interpreter``. In Spark's workers it
freezes the modules that are loaded already, and has the process end quietly: see ``worker``.

Page: ``docs/internals/spark.md``.
"""

from cometmq.extras import require

require("spark", "the package cometmq.spark")

# ruff: noqa: E402  the imports below need Spark; without it their own error would name no remedy

from typing import TYPE_CHECKING

from cometmq import lazy
from cometmq.spark import interpreter, worker
from cometmq.spark.duplicates import drop_duplicates
from cometmq.spark.session import session, session_options
from cometmq.spark.starting import started

if TYPE_CHECKING:
    from cometmq.spark.live.lag_listener import LagListener

worker.freeze_modules()
worker.quieten_worker()
interpreter.choose()

__all__ = ["LagListener", "drop_duplicates", "session", "session_options", "started"]

__getattr__ = lazy.importer(__name__, {"LagListener": "cometmq.spark.live.lag_listener"})
