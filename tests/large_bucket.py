"""A bucket that speaks as much of S3 as reads need, with files of any length that take no room."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

PAGE: Final = 1_000
"""Names that S3 lists in a request."""
_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_WRITTEN: Final = "2026-01-31T09:00:00.000Z"


class LargeBucket:
    """A WSGI application; it answers lists of a folder, HEAD, and GET of a range of bytes.

    Args:
        files: by key, the length of each.
        begin: the first bytes of each file; all others are zeros.

    Attributes:
        address: of the store in it.
        requests: how many there were, by what was asked.
        sent: bytes of files that were sent, by key.
    """

    def __init__(self, name: str, files: Mapping[str, int], begin: bytes = b"") -> None:
        self.address = f"s3://{name}/store"
        self._name = name
        self._files = files
        self._keys = sorted(files)
        self._begin = begin
        self.requests: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    def has(self, path: str) -> bool:
        """Check whether the path of a URL is of this bucket."""
        return path.split("/")[1] == self._name

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        key = environ["PATH_INFO"].removeprefix(f"/{self._name}").strip("/")
        asked = {name: texts[0] for name, texts in parse_qs(environ["QUERY_STRING"]).items()}
        if "list-type" in asked:
            self.requests["list"] += 1
            return _answered(start, "200 OK", self._list(asked).encode(), {"Content-Type": "application/xml"})
        self.requests[environ["REQUEST_METHOD"]] += 1
        if key not in self._files:
            return _answered(start, "404 Not Found", b"", {})
        size = self._files[key]
        if environ["REQUEST_METHOD"] == "HEAD":
            return _answered(start, "200 OK", b"", {"Content-Length": str(size)})
        first, last = map(int, environ["HTTP_RANGE"].removeprefix("bytes=").split("-"))
        last = min(last, size - 1)
        self.sent[key] += last + 1 - first
        data = self._begin[first : last + 1].ljust(last + 1 - first, b"\0")
        return _answered(
            start, "206 Partial Content", data, {"Content-Range": f"bytes {first}-{last}/{size}"}
        )

    def _list(self, asked: Mapping[str, str]) -> str:
        prefix, first = asked.get("prefix", ""), int(asked.get("continuation-token", 0))
        keys = [key for key in self._keys if key.startswith(prefix)]
        page, behind = keys[first : first + PAGE], first + PAGE
        more = f"<NextContinuationToken>{behind}</NextContinuationToken>" if keys[behind:] else ""
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{self._files[key]}</Size>"
            f"<LastModified>{_WRITTEN}</LastModified></Contents>"
            for key in page
        )
        return (
            f'<ListBucketResult xmlns="{_NAMESPACE}"><IsTruncated>{"true" if more else "false"}</IsTruncated>'
            f"<KeyCount>{len(page)}</KeyCount>{more}{contents}</ListBucketResult>"
        )


def _answered(
    start: Callable[..., Any], status: str, data: bytes, headers: Mapping[str, str]
) -> Iterable[bytes]:
    start(status, list(({"Content-Length": str(len(data))} | dict(headers)).items()))
    return [data]
