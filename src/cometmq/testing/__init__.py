"""Tools for tests of CometMQ and of programs that use it: an embedded broker, and disks that fail.

The names are imported when they are first used; the pytest plugin imports nothing until a test needs it.

Page: ``docs/internals/tests.md``.
"""

from typing import TYPE_CHECKING, Final

from cometmq import lazy

if TYPE_CHECKING:
    from cometmq.testing.async_broker import AsyncEmbeddedBroker
    from cometmq.testing.embedded_broker import EmbeddedBroker
    from cometmq.testing.faults import Fault

__all__ = ["AsyncEmbeddedBroker", "EmbeddedBroker", "Fault"]

_HOMES: Final = {
    "AsyncEmbeddedBroker": "cometmq.testing.async_broker",
    "EmbeddedBroker": "cometmq.testing.embedded_broker",
    "Fault": "cometmq.testing.faults",
}

__getattr__ = lazy.importer(__name__, _HOMES)
