"""Hooks around the handling of messages."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Final, Protocol

from cometmq.message import StoredMessage

_NOTHING: Final = nullcontext()


class HandleHook(Protocol):
    """Observes the handling of messages. An exception of its own counts as if the handler had raised it."""

    def handling(self, group: str, messages: Sequence[StoredMessage]) -> AbstractContextManager[object]:
        """Return what is entered before the handler is called, and left after it, with what it raised."""
        ...


class HandleHooks:
    """The hooks of one consumer, the first one outermost."""

    def __init__(self, group: str = "", hooks: Sequence[HandleHook] = ()) -> None:
        self._group = group
        self._hooks = tuple(hooks)

    def around(self, messages: Sequence[StoredMessage]) -> AbstractContextManager[object]:
        """Return what is entered around the handling of messages; their bodies are decompressed."""
        if not self._hooks:
            return _NOTHING
        with ExitStack() as entered:
            for hook in self._hooks:
                entered.enter_context(hook.handling(self._group, messages))
            return entered.pop_all()
