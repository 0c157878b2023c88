"""Switching from the plain operations to the compiled ones, while the process serves.

Loading runs in a thread. With a warm cache that is 0.3–0.5 s of importing Numba and linking machine
code; the interpreter changes threads every 5 ms, and LLVM's work holds no GIL. Compiling would keep the
interpreter busy for half a minute, so where no cache is found a child process does it. The child ends with
its parent, however that ends: it watches a pipe that only the parent holds open. What a child that was
stopped leaves, its parent removes; if that was killed, the next one that compiles.
"""

import atexit
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, cast

from cometmq.kernels import cache, places, plain
from cometmq.kernels.footprint import small_footprint
from cometmq.kernels.ops import Ops

log = logging.getLogger(__name__)

STOP_SECONDS_MAX: Final = 5
"""How long a child that compiles is given to end by itself."""
WITH_PARENT: Final = "--with-parent"

WORTH_LOADING_BYTES: Final = 4 * 1024 * 1024
WORTH_COMPILING_BYTES: Final = 256 * 1024 * 1024
NOT_LOADED: Final = "the kernels cannot be loaded, the slower plain operations stay: %s"
NO_NUMBA: Final = "numba is not installed: the slower plain operations stay; pip install 'cometmq[fast]'"
PLAIN: Final = "plain"
COMPILED: Final = "compiled"

_current: Ops = plain
_lock = threading.Lock()
_said_no_numba = False
_progress: Callable[[], str] | None = None
"""Tells of the loading that was begun last."""


def current() -> Ops:
    """Give the operations: the compiled ones if they are loaded, otherwise the plain ones."""
    return _current


def serving() -> str:
    """Return which operations serve: ``compiled``, ``plain, compiling 12 of 25``, ``plain: `` and why."""
    if _current is not plain:
        return COMPILED
    return PLAIN if _progress is None else _progress()


def load() -> Ops:
    """Load the compiled operations here and now, which may mean to compile: see ``cache.load_compiled``."""
    global _current  # noqa: PLW0603  what is loaded is loaded for the process
    with _lock:
        if _current is plain:
            with small_footprint():
                _current = cast(Ops, cache.load_compiled())
    return _current


def load_if_possible() -> Ops:
    """Do as ``load``; if it fails, a warning is logged and the plain operations are returned."""
    try:
        return load()
    except Exception as error:  # noqa: BLE001  as in Loading: all works without
        _warn(error)
        return plain


def load_for(size: int) -> None:
    """Load the compiled operations here and now if they pay for a job on ``size`` bytes of log.

    From a warm cache that takes less time than the plain ones need for some megabytes, cold half a minute.
    If it fails, a warning is logged and the plain ones stay.
    """
    if _current is not plain or size < WORTH_LOADING_BYTES:
        return
    try:
        if size >= WORTH_COMPILING_BYTES or cache.is_warm():
            load()
    except Exception as error:  # noqa: BLE001  as in Loading: all works without
        _warn(error)


def _warn(error: Exception) -> str:
    """Log why the plain operations stay, and return it; that Numba is not installed is logged once."""
    global _said_no_numba  # noqa: PLW0603  once for the process
    if isinstance(error, ModuleNotFoundError) and error.name == "numba":
        if not _said_no_numba:
            _said_no_numba = True
            log.warning(NO_NUMBA)
        return "numba is not installed"
    log.warning(NOT_LOADED, repr(error))
    return repr(error)


def load_in_background(on_loaded: Callable[[], None] | None = None) -> "Loading":
    """Begin to load the compiled operations; ``current`` gives them when they are there.

    If that fails, a warning is logged and the plain ones stay.

    Args:
        on_loaded: called from the loading thread when they are.
    """
    return Loading(on_loaded)


class Loading:
    """A loading under way."""

    def __init__(self, on_loaded: Callable[[], None] | None = None) -> None:
        global _progress  # noqa: PLW0603  one loading is shown for the process
        self._on_loaded = on_loaded
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._child_lock = threading.Lock()
        self._step: Callable[[], str] = lambda: f"{PLAIN}, loading"
        _progress = self._tell
        self._thread = threading.Thread(target=self._run, name="load-kernels", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Give up what is not loaded yet; waits, seldom over a second, until thread and child are gone."""
        self._stopping.set()
        with self._child_lock:
            child = self._child
        if child is not None:
            _end(child)
            cache.remove_unfinished()
        self._thread.join()
        self._step = lambda: PLAIN
        atexit.unregister(self.stop)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the loading has ended, well or not; tells whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _tell(self) -> str:
        return self._step()

    def _run(self) -> None:
        try:
            if (found := cache.find()) is None:
                self._compile()
                found = cache.find()
            if self._stopping.is_set():
                return
            self._step = lambda: f"{PLAIN}, loading"
            load()
        except Exception as error:  # noqa: BLE001  whatever Numba, LLVM or the disk have against it: all works without
            why = _warn(error)
            self._step = lambda: f"{PLAIN}: {why}"
            return
        log.info("the kernels are loaded from %s", found)
        if self._on_loaded is not None:
            self._on_loaded()

    def _compile(self) -> None:
        """Run a child that compiles. Raises RuntimeError if that is of no use, but not if it was stopped."""
        parent, kernel_count = places.to_write(for_all_users=False).path, cache.read_sources().kernel_count
        log.info(
            "compiling %d kernels into %s; until then the slower plain operations serve", kernel_count, parent
        )
        self._step = lambda: (
            f"{PLAIN}, compiling {min(cache.compiled_count(parent) + 1, kernel_count)} of {kernel_count}"
        )
        with self._child_lock:
            if self._stopping.is_set():
                return
            self._child = subprocess.Popen(  # noqa: S603  this interpreter and this package
                [sys.executable, "-m", "cometmq.kernels", WITH_PARENT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        with self._child as child:
            assert child.stderr is not None
            complaint = child.stderr.read().decode(errors="replace")
        code = child.returncode
        if not self._stopping.is_set() and (code or cache.find() is None):
            raise RuntimeError(f"compiling ended with code {code}: {complaint.strip()[-500:]}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child; what it has begun is left."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
