"""CometMQ: a RocketMQ-compatible message log in Python, with its data pipeline on Spark.

The clients are imported when they are first named: ``from cometmq import Message, Producer``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cometmq.client import (
        Consumer,
        DeadLetter,
        Limits,
        LitePullConsumer,
        Lookup,
        Model,
        Producer,
        PullConsumer,
        Pulled,
        PullOptions,
        PullStatus,
        Retry,
        SendResult,
        SendStatus,
        Start,
    )
    from cometmq.client.idempotence import Deduplicator
    from cometmq.errors import CometMQError
    from cometmq.message import Message, MessageQueue, StoredMessage

_HOMES: Final = {
    "cometmq.client": (
        "Consumer",
        "DeadLetter",
        "Limits",
        "LitePullConsumer",
        "Lookup",
        "Model",
        "Producer",
        "PullConsumer",
        "PullOptions",
        "PullStatus",
        "Pulled",
        "Retry",
        "SendResult",
        "SendStatus",
        "Start",
    ),
    "cometmq.client.idempotence": ("Deduplicator",),
    "cometmq.errors": ("CometMQError",),
    "cometmq.message": ("Message", "MessageQueue", "StoredMessage"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CometMQError",
    "Consumer",
    "DeadLetter",
    "Deduplicator",
    "Limits",
    "LitePullConsumer",
    "Lookup",
    "Message",
    "MessageQueue",
    "Model",
    "Producer",
    "PullConsumer",
    "PullOptions",
    "PullStatus",
    "Pulled",
    "Retry",
    "SendResult",
    "SendStatus",
    "Start",
    "StoredMessage",
]


def __getattr__(name: str) -> Any:
    if (home := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
