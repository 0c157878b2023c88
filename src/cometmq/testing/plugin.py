"""The pytest plugin: the fixture ``rocketmq``, a broker and a name server for one test.

pytest finds it by its entry point. Until a test asks for the fixture it has imported nothing more.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cometmq.testing.embedded_broker import EmbeddedBroker

NEEDS: str = 'the fixture rocketmq needs what a broker needs: pip install "cometmq[broker]" ({})'


@pytest.fixture
def rocketmq() -> "Iterator[EmbeddedBroker]":
    """Give a RocketMQ of the test's own, in memory, that can be looked into, fail, and skip time."""
    try:
        with _garbage_left():
            from cometmq.testing.embedded_broker import EmbeddedBroker  # noqa: PLC0415 - see above
    except ImportError as error:
        pytest.fail(NEEDS.format(error))
    with EmbeddedBroker() as embedded:
        yield embedded


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Look for no garbage meanwhile: imports leave none, and to look for it takes an eighth of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
