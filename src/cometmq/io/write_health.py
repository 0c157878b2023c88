"""Which writes to the disk fail, from the first failure until they work again.

Every write of a store and of a broker's tables passes through the file layer (``files.py``); ``watched``
wraps a layer so that failures and successes of all its users are recorded in one place.
"""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger

WRITES: Final = frozenset(
    {
        *("save", "save_private", "make_private"),
        *("create", "rename", "make_directory", "remove", "remove_directory"),
        *("write", "reserve", "window"),
    }
)
SYNCS: Final = frozenset({"sync", "sync_all"})
OPENERS: Final = frozenset({"create", "open"})
"""The methods that return files, whose writes are watched too."""

FOLDER_OF_TABLES: Final = "config"
"""In this folder each file is a place of its own; any other folder of a store is one place."""

_log = get_logger(__name__)


class FailedWrites(NamedTuple):
    """The failing writes or syncs of one place.

    Attributes:
        place: the folder of the store, or the table.
        action: ``write`` or ``sync``.
        path: the path of the last failure.
        why: the system's text of the last error.
        since_ms: the time of the first failure, ms since the epoch.
        times: number of failures so far.
    """

    place: str
    action: str
    path: str
    why: str
    since_ms: int
    times: int

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(" ", "seconds")
        return (
            f"{self.action} fails in {self.place} since {since}, {self.times} times: {self.path}: {self.why}"
        )


class WriteHealth:
    """A record of the writes that fail now. Safe from any thread.

    Args:
        root: the folder of the store, to which the names of places are relative.
    """

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._failures: dict[tuple[str, str], FailedWrites] = {}

    @property
    def is_failing(self) -> bool:
        """Whether any write fails now."""
        return bool(self._failures)

    def failures(self) -> list[FailedWrites]:
        """Return the writes that fail now, the oldest failure first."""
        return sorted(self._failures.copy().values(), key=lambda failed: failed.since_ms)

    def record_failure(self, action: str, path: Path, error: OSError) -> None:
        """Record that a write or sync failed."""
        place = self._place(path)
        why = os.strerror(error.errno) if error.errno else str(error)
        known = self._failures.get((action, place))
        if known is None:
            failed = FailedWrites(place, action, str(path), why, self._clock.now_ms(), 1)
            _log.error("%s", failed)
        else:
            failed = known._replace(path=str(path), why=why, times=known.times + 1)
        self._failures[action, place] = failed

    def record_success(self, action: str, path: Path) -> None:
        """Record that a write or sync succeeded: its place works again."""
        if (failed := self._failures.pop((action, self._place(path)), None)) is not None:
            _log.info("%s works again in %s", action, failed.place)

    def _place(self, path: Path) -> str:
        try:
            parts = path.relative_to(self._root).parts
        except ValueError:
            return str(path)
        return "/".join(parts[:2] if parts[:1] == (FOLDER_OF_TABLES,) else parts[:1]) or str(path)


def watched(layer: FileLayer, health: WriteHealth) -> FileLayer:
    """Wrap a layer, unless it is wrapped, so that its failing writes are recorded in ``health``."""
    if isinstance(layer, _Watched):
        return layer
    return cast(FileLayer, _Watched(layer, health, None))


def failures_of(layer: FileLayer) -> list[FailedWrites]:
    """Return the writes of a layer that fail now; none if the layer is not watched."""
    return layer.health.failures() if isinstance(layer, _Watched) else []


class _Watched:
    """A wrapper of a layer or of one of its files; each method is wrapped when it is first used."""

    def __init__(self, target: Any, health: WriteHealth, path: Path | None) -> None:
        self.health = health
        self._target = target
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        if name in WRITES or name in SYNCS:
            value = self._noting("sync" if name in SYNCS else "write", value)
        if name in OPENERS:
            value = self._opening(value)
        self.__dict__[name] = value
        return value

    def _noting(self, action: str, method: Callable[..., Any]) -> Callable[..., Any]:
        own_path, health = self._path, self.health

        def call(*args: Any, **kwargs: Any) -> Any:
            if own_path is None and not isinstance(args[0], Path):
                args = (list(args[0]), *args[1:])  # the paths of ``sync_all``, which may be read once only
            try:
                given = method(*args, **kwargs)
            except FileNotFoundError:
                raise  # it was removed meanwhile; the caller decides what that means
            except OSError as error:
                path = own_path or (Path(error.filename) if error.filename else None)
                health.record_failure(action, path or next(iter(_paths(None, args)), Path("?")), error)
                raise
            if health.is_failing:
                for path in _paths(own_path, args):
                    health.record_success(action, path)
            return given

        return call

    def _opening(self, method: Callable[..., Any]) -> Callable[..., Any]:
        health = self.health

        def call(path: Path, *args: Any, **kwargs: Any) -> Any:
            return _Watched(method(path, *args, **kwargs), health, path)

        return call


def _paths(own_path: Path | None, args: tuple[Any, ...]) -> Sequence[Path]:
    """Return the paths of a call: a file's own path, the first argument, or all paths of a list."""
    if own_path is not None:
        return (own_path,)
    paths: Sequence[Path] = (args[0],) if isinstance(args[0], Path) else args[0]
    return paths
