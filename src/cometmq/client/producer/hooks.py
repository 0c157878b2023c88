"""Hooks that are called before and after each attempt of a send.

Source: RocketMQ ``client/hook/SendMessageHook.java``, ``SendMessageContext.java``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.send_result import SendResult
from cometmq.errors import CometMQError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.wire.frame import Command

_log = get_logger(__name__)


@dataclass(slots=True)
class Attempt:
    """One attempt of a send; retries make several.

    Attributes:
        ready: the message or batch that is sent.
        address: of the broker, ``host:port``.
        born_time: when the attempt began, ms since the epoch.
        cost_ms: how long it took; 0 before it has ended.
        answer: the broker's response; None before it arrives, and for one-way sends.
        result: the result, if the message is stored.
        error: why it is not stored, or may not be.
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
    """Observes sends. Its exceptions are logged and fail no send. It must not block."""

    def before_send(self, attempt: Attempt) -> None:
        """Observe an attempt before its request is sent."""
        ...

    def after_send(self, attempt: Attempt) -> None:
        """Observe an attempt after its response or error."""
        ...


class Hooks:
    """Calls hooks one after the other."""

    def __init__(self, hooks: Sequence[SendHook]) -> None:
        self._hooks = list(hooks)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, hook: SendHook) -> None:
        """Add a hook."""
        self._hooks.append(hook)

    def before(self, attempt: Attempt) -> None:
        """Call ``before_send`` of all hooks."""
        for hook in self._hooks:
            _call(hook.before_send, attempt)

    def after(self, attempt: Attempt) -> None:
        """Call ``after_send`` of all hooks."""
        for hook in self._hooks:
            _call(hook.after_send, attempt)


def _call(hook: Callable[[Attempt], None], attempt: Attempt) -> None:
    try:
        hook(attempt)
    except Exception:  # noqa: BLE001 a hook is the application's and must not fail a send
        _log.exception("a hook failed: %s", hook)
