"""What a connection has received and nobody has handled yet."""


class Intake:
    """Bytes, taken from the front a share at a time."""

    __slots__ = ("_begin", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._begin = 0

    def __len__(self) -> int:
        return len(self._data) - self._begin

    @property
    def is_begun(self) -> bool:
        """Whether a part was taken and a part is left."""
        return self._begin > 0

    def add(self, data: bytes) -> None:
        """Take in what was received."""
        self._data = self._data[self._begin :] + data if self._data else data
        self._begin = 0

    def take(self, size_max: int) -> bytes:
        """Give up to so many bytes, and hold them no longer."""
        data, begin = self._data, self._begin
        end = begin + size_max
        if end < len(data):
            self._begin = end
            return data[begin:end]
        self.clear()
        return data[begin:] if begin else data

    def clear(self) -> None:
        """Forget everything."""
        self._data, self._begin = b"", 0
