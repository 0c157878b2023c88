"""A CometMQ broker that tells where its time goes.

    STAGES=file python -m benches.timed_broker dev --port …        (as ``cometmq dev``)

On SIGUSR1 it writes to the file, as JSON, what it has used since its start: microseconds of its loop's thread
by stage, of the whole process by user and system, and how many messages and turns of the loop there were.
The clock is asked twice for each part of a turn, which costs a turn some microseconds.
"""

import functools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cometmq.cli.main import main as cometmq
from cometmq.net.server import Session
from cometmq.net.turn import Turn
from cometmq.store.appending import Appending
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.store import MessageStore
from cometmq.store.upkeep.dispatch import Dispatcher

DISPATCH: Final = "dispatch"
TURN: Final = "rest of the turn"
STAGES: Final[dict[str, tuple[type, str]]] = {
    "take in what was read": (Session, "data_received"),
    "decode; record, CRC, answer (mostly kernel)": (Appending, "sends"),
    "append to the CommitLog": (CommitLog, "append_encoded"),
    DISPATCH: (Dispatcher, "add_sends"),
    "answers to the sockets": (Session, "send_at_once"),
    TURN: (Turn, "handle"),
    "upkeep: index, queues, checkpoint": (MessageStore, "tick"),
}


class Stopwatch:
    """Adds up what stages take, each without those that it calls."""

    def __init__(self) -> None:
        self._took_ns = dict.fromkeys(STAGES, 0)
        self._messages = self._turns = 0
        self._inner_ns = 0

    def watch(self) -> None:
        """Replace each stage's function."""
        for stage, (owner, name) in STAGES.items():
            setattr(owner, name, self._timed(stage, getattr(owner, name)))

    def write(self, path: Path) -> None:
        """Write what each stage has used."""
        used = os.times()
        told = {
            "stages": {stage: took_ns / 1000 for stage, took_ns in self._took_ns.items()},
            "user": used.user * 1e6,
            "system": used.system * 1e6,
            "messages": self._messages,
            "turns": self._turns,
        }
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(told))
        unfinished.rename(path)

    def _timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            outer_ns, self._inner_ns = self._inner_ns, 0
            began_ns = time.thread_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                took_ns = time.thread_time_ns() - began_ns
                self._took_ns[stage] += took_ns - self._inner_ns
                self._turns += stage == TURN
                self._messages += args[1] if stage == DISPATCH else 0
                self._inner_ns = outer_ns + took_ns

        return call


if __name__ == "__main__":
    stopwatch = Stopwatch()
    stopwatch.watch()
    signal.signal(signal.SIGUSR1, lambda *_: stopwatch.write(Path(os.environ["STAGES"])))
    cometmq()
