"""A file system of fsspec, ``counted://``, that counts what it is asked, as an object store would be."""

from collections import Counter
from typing import Any, ClassVar, Final

from fsspec import AbstractFileSystem, register_implementation

PAGE: Final = 1_000
"""Names that S3 lists in a request."""


class CountedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files that are bytes, or zeros of some length.

    Attributes:
        files: by path, their content, or their length.
        requests: how many there were, by what was asked.
        fetched: bytes of files that were read, by path.
    """

    protocol = "counted"
    files: ClassVar[dict[str, bytes | int]] = {}
    requests: ClassVar[Counter[str]] = Counter()
    fetched: ClassVar[Counter[str]] = Counter()

    @classmethod
    def start(cls, files: dict[str, bytes | int]) -> None:
        """Hold these files, and count from now on."""
        cls.files = files
        cls.requests.clear()
        cls.fetched.clear()

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a folder, or a file, in pages."""
        path = path.strip("/")
        found: dict[str, dict[str, Any]] = {}
        for name, content in self.files.items():
            if name == path:
                found[name] = {"name": name, "size": _size(content), "type": "file"}
            elif name.startswith(f"{path}/"):
                child, is_deeper, _rest = name[len(path) + 1 :].partition("/")
                kind, size = ("directory", 0) if is_deeper else ("file", _size(content))
                found[f"{path}/{child}"] = {"name": f"{path}/{child}", "size": size, "type": kind}
        self.requests["list"] += max(-(-len(found) // PAGE), 1)
        if not found:
            raise FileNotFoundError(path)
        return list(found.values()) if detail else list(found)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return what is at a path."""
        self.requests["info"] += 1
        path = path.strip("/")
        if path in self.files:
            return {"name": path, "size": _size(self.files[path]), "type": "file"}
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Read a stretch of a file."""
        path = path.strip("/")
        content = self.files[path]
        begin, upto = start or 0, _size(content) if end is None else end
        self.requests["read"] += 1
        self.fetched[path] += upto - begin
        return bytes(upto - begin) if isinstance(content, int) else content[begin:upto]


def _size(content: bytes | int) -> int:
    return content if isinstance(content, int) else len(content)


register_implementation("counted", CountedFiles, clobber=True)
