"""The pytest plugin: the fixtures ``rocketmq``, ``rocketmq_async`` and ``rocketmq_session``.

pytest finds them by the plugin's entry point. Until a test uses one, nothing more is imported.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cometmq.testing.async_broker import AsyncEmbeddedBroker
    from cometmq.testing.embedded_broker import EmbeddedBroker


@pytest.fixture
def rocketmq() -> "Iterator[EmbeddedBroker]":
    """Start a RocketMQ for one test, in memory, which can be inspected, fail, and skip time."""
    with _started() as embedded:
        yield embedded


@pytest.fixture
def rocketmq_async() -> "Iterator[AsyncEmbeddedBroker]":
    """Start a RocketMQ for one test that is a coroutine: its methods are awaited, and block no event loop.

    The fixture itself is not a coroutine, so it works with any plugin that runs such tests.
    """
    with _started() as embedded:
        from cometmq.testing.async_broker import AsyncEmbeddedBroker  # noqa: PLC0415 - see above

        yield AsyncEmbeddedBroker(embedded)


@pytest.fixture(scope="session")
def rocketmq_session() -> "Iterator[EmbeddedBroker]":
    """Start one RocketMQ for all tests that use it; each needs topics and groups of its own."""
    with _started() as embedded:
        yield embedded


@contextmanager
def _started() -> "Iterator[EmbeddedBroker]":
    try:
        with _garbage_left():
            from cometmq.testing.embedded_broker import EmbeddedBroker  # noqa: PLC0415 - see above
    except ImportError as error:
        pytest.fail(f"the fixture rocketmq cannot start: {error}")
    with EmbeddedBroker() as embedded:
        yield embedded


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Disable garbage collection: imports leave no garbage, and collecting takes 1/8 of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
