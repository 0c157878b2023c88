"""Hooks: what looks at each try of a send, before and after it.

Source: RocketMQ ``client/hook/SendMessageHook.java``, ``SendMessageContext.java``.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.send_result import SendResult
from cometmq.errors import CometMQError
from cometmq.message import MessageQueue
from cometmq.wire.frame import Command

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Attempt:
    """One try of a send. A send that is tried again makes several.

    Attributes:
        ready: what is sent: one message or a batch.
        address: of the broker, ``host:port``.
        born_time: when the try began, ms since the epoch.
        cost_ms: how long it took, when it is over.
        answer: the broker's; None before it came, and for one-way sends.
        result: what the send gives if it is stored.
        error: why it is not, or may not be.
    """

    group: str
    ready: Outgoing
    queue: MessageQueue
    address: str
    born_time: int
    cost_ms: int = 0
    answer: Command | None = None
    result: SendResult | None = None
    error: CometMQError | None = None


class SendHook(Protocol):
    """Looks at sends. What it raises is logged, and stops no send. It must not block."""

    def before_send(self, attempt: Attempt) -> None:
        """Look at what is about to be sent."""
        ...

    def after_send(self, attempt: Attempt) -> None:
        """Look at what became of it."""
        ...


class Hooks:
    """Hooks called one after the other."""

    def __init__(self, hooks: Sequence[SendHook]) -> None:
        self._hooks = list(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, hook: SendHook) -> None:
        """Call one more."""
        self._hooks.append(hook)

    def before(self, attempt: Attempt) -> None:
        """Call all before a try."""
        for hook in self._hooks:
            _call(hook.before_send, attempt)

    def after(self, attempt: Attempt) -> None:
        """Call all after a try."""
        for hook in self._hooks:
            _call(hook.after_send, attempt)


def _call(look: Callable[[Attempt], None], attempt: Attempt) -> None:
    try:
        look(attempt)
    except Exception:  # noqa: BLE001 a hook is the application's, and no send shall fail for it
        _log.exception("a hook failed: %s", look)
