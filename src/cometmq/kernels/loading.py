"""Switching from the plain operations to the compiled ones, while the process serves.

Loading runs in a thread. With a warm cache it takes 0.3–0.5 s of importing Numba and linking machine
code; the interpreter switches threads every 5 ms, and LLVM's work holds no GIL. Compiling would keep the
interpreter busy for a minute, so where no cache is found a child process compiles. The child ends with
its parent, even a killed one: it watches a pipe that only the parent holds open. The parent removes the
unfinished files of a child that it stopped; if the parent was killed, the next process that compiles does.
"""

import atexit
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, cast

from cometmq.format.checksum import Crc
from cometmq.kernels import plain
from cometmq.kernels.compiling import cache, places
from cometmq.kernels.compiling.footprint import small_footprint
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.plain import PlainPulls
from cometmq.kernels.pulls.rows import PullOps
from cometmq.kernels.queries.plain import PlainQueries
from cometmq.kernels.queries.rows import QueryOps
from cometmq.logs import get_logger

log = get_logger(__name__)

STOP_SECONDS_MAX: Final = 5
"""How long a compiling child may take to end by itself before it is killed."""
WITH_PARENT: Final = "--with-parent"

WORTH_LOADING_BYTES: Final = 4 * 1024 * 1024
WORTH_COMPILING_BYTES: Final = 256 * 1024 * 1024
NOT_LOADED: Final = "the kernels cannot be loaded, the slower plain operations are used: %s"
NO_NUMBA: Final = "numba is not installed, the slower plain operations are used: pip install 'cometmq[fast]'"
PLAIN: Final = "plain"
COMPILED: Final = "compiled"

_PULLS: Final = {crc: PlainPulls(crc) for crc in Crc}
_QUERIES: Final = {crc: PlainQueries(crc) for crc in Crc}
ops: Ops = plain
"""The operations that serve, to be taken from here for each batch: the compiled ones once they are loaded."""
_lock = threading.Lock()
_said_no_numba = False
_progress: Callable[[], str] | None = None
"""Returns what ``serving`` shows for the loading that was started last."""


def pulls_for(crc: Crc) -> PullOps:
    """Return the operations on pulls of a log whose records are checked by ``crc``.

    The compiled ones compare bodies' checksums only.
    """
    return ops.pulls if crc is Crc.BODY else _PULLS[crc]


def queries_for(crc: Crc) -> QueryOps:
    """Return the operations on queries of a log whose records are checked by ``crc``: see ``pulls_for``."""
    return ops.queries if crc is Crc.BODY else _QUERIES[crc]


def serving() -> str:
    """Return which operations are used: ``compiled``, ``plain, compiling 12 of 25``, ``plain: `` and why."""
    if ops is not plain:
        return COMPILED
    return PLAIN if _progress is None else _progress()


def load() -> Ops:
    """Load the compiled operations in this thread, compiling them if need be: see ``cache.load_compiled``."""
    global ops  # noqa: PLW0603  what is loaded is loaded for the process
    with _lock:
        if ops is plain:
            with small_footprint():
                ops = cast(Ops, cache.load_compiled())
    return ops


def load_if_possible() -> Ops:
    """Load as ``load`` does; if that fails, log a warning and return the plain operations."""
    try:
        return load()
    except Exception as error:  # noqa: BLE001  as in Loading: all works without
        _warn(error)
        return plain


def load_for(size: int) -> None:
    """Load the compiled operations in this thread if that saves time for a job on ``size`` bytes of log.

    Loading from a warm cache takes less time than the plain operations need for some megabytes; compiling
    takes a minute. If loading fails, a warning is logged and the plain operations stay in use.
    """
    if ops is not plain or size < WORTH_LOADING_BYTES:
        return
    try:
        if size >= WORTH_COMPILING_BYTES or cache.is_warm():
            load()
    except Exception as error:  # noqa: BLE001  as in Loading: all works without
        _warn(error)


def _warn(error: Exception) -> str:
    """Log why the plain operations stay in use, and return it; a missing Numba is logged only once."""
    global _said_no_numba  # noqa: PLW0603  once for the process
    if isinstance(error, ModuleNotFoundError) and error.name == "numba":
        if not _said_no_numba:
            _said_no_numba = True
            log.warning(NO_NUMBA)
        return "numba is not installed"
    log.warning(NOT_LOADED, repr(error))
    return repr(error)


def load_in_background(on_loaded: Callable[[], None] | None = None) -> "Loading":
    """Start loading the compiled operations in a thread; ``ops`` are they once they are loaded.

    If that fails, a warning is logged and the plain operations stay in use.

    Args:
        on_loaded: called from the loading thread once they are.
    """
    return Loading(on_loaded)


class Loading:
    """Loads the compiled operations in a thread of its own, from its creation on."""

    def __init__(self, on_loaded: Callable[[], None] | None = None) -> None:
        global _progress  # noqa: PLW0603  one loading is shown for the process
        self._on_loaded = on_loaded
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._child_lock = threading.Lock()
        self._step: Callable[[], str] = lambda: f"{PLAIN}, loading"
        _progress = self._show_step
        self._thread = threading.Thread(target=self._run, name="load-kernels", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop loading, and wait until thread and child have ended, which seldom takes over a second."""
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
        """Wait until the loading has succeeded or failed; return False if it is still under way."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _show_step(self) -> str:
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
        except Exception as error:  # noqa: BLE001  Numba, LLVM and the disk fail in many ways: all works without
            why = _warn(error)
            self._step = lambda: f"{PLAIN}: {why}"
            return
        log.info("the kernels are loaded from %s", found)
        if self._on_loaded is not None:
            self._on_loaded()

    def _compile(self) -> None:
        """Run a child that compiles. Raises RuntimeError if that fails, but not if it was stopped."""
        parent, kernel_count = places.to_write(for_all_users=False).path, cache.read_sources().kernel_count
        log.info(
            "compiling %d kernels into %s; the slower plain operations are used until then",
            kernel_count,
            parent,
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
            raise RuntimeError(f"the compiling process ended with code {code}: {complaint.strip()[-500:]}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child; the files that it has not finished stay."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
