"""What tests of CometMQ, and of programs that use it, need: a broker of their own, and disks that fail.

The names are imported when they are first used; the pytest plugin imports nothing till a test asks for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cometmq.testing.embedded_broker import EmbeddedBroker
    from cometmq.testing.faults import Fault

__all__ = ["EmbeddedBroker", "Fault"]

_HOMES: Final = {
    "EmbeddedBroker": "cometmq.testing.embedded_broker",
    "Fault": "cometmq.testing.faults",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
