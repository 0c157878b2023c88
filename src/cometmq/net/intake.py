"""The received and not yet handled bytes of a connection."""


class Intake:
    """A byte buffer from whose front shares are taken."""

    __slots__ = ("_begin", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._begin = 0

    def __len__(self) -> int:
        return len(self._data) - self._begin

    @property
    def is_begun(self) -> bool:
        """Whether a share was taken and bytes are left."""
        return self._begin > 0

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        self._data = self._data[self._begin :] + data if self._data else data
        self._begin = 0

    def take(self, size_max: int) -> bytes:
        """Remove and return up to ``size_max`` bytes from the front."""
        data, begin = self._data, self._begin
        end = begin + size_max
        if end < len(data):
            self._begin = end
            return data[begin:end]
        self.clear()
        return data[begin:] if begin else data

    def clear(self) -> None:
        """Drop all bytes."""
        self._data, self._begin = b"", 0
