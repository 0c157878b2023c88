"""What the network tests share: each runs on both event loops."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the kinds of event loop, on each of which every test of this folder runs."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
