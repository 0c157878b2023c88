"""Background tasks whose failures are logged: nobody may wait for them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from cometmq.logs import get_logger

_log = get_logger(__name__)


def start_task(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
    """Start a task that runs until it is cancelled; log the error if it fails."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the %s has failed and stands still from now on", task.get_name(), exc_info=error)
