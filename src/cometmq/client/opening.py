"""Clients that a program opens and closes: by ``async with``, or by ``start`` and ``stop``."""

from typing import TYPE_CHECKING, ClassVar, Self

from cometmq.errors import NetworkError, SettingsError


class Opening:
    """The opening and closing of a client.

    Attributes:
        opened_names: the attributes that ``_open`` sets: before it they raise NetworkError.
    """

    opened_names: ClassVar[frozenset[str]] = frozenset()
    _is_open = False

    async def start(self) -> None:
        """Open the client, without a request. Raises SettingsError if it is open."""
        if self._is_open:
            raise SettingsError(f"this {type(self).__name__} is open already: tasks may share it as it is")
        await self._open()
        self._is_open = True

    async def stop(self) -> None:
        """Close the client if it is open; what still waits is sent, or fails."""
        if self._is_open:
            self._is_open = False
            await self._close()

    async def __aenter__(self) -> Self:
        """Open the client: see ``start``."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client: see ``stop``."""
        await self.stop()

    async def _open(self) -> None:
        """Set the attributes of an open client."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Close what ``_open`` has opened."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # else each mistyped attribute would be legal

        def __getattr__(self, name: str) -> object:
            """Raise for an attribute that is not set; this costs an open client nothing."""
            kind = type(self).__name__
            if name in self.opened_names:
                raise NetworkError(
                    f"this {kind} is not open: use it within 'async with {kind}(...)', or await its start() "
                    "first"
                )
            raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)
