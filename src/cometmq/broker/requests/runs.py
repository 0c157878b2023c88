"""What the door hands on: frames of one kind that stand side by side in a read."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from cometmq.kernels.frames.rows import Frames, ReadFrames
from cometmq.kernels.ops import Ops
from cometmq.net.session import Read

ReadRun: TypeAlias = tuple[Read, ReadFrames]
"""A read, and the run that it goes on with."""


class Taker(Protocol):
    """Answers the frames of one kind."""

    def take(self, ops: Ops, frames: Frames, runs: Sequence[ReadRun], /) -> None:
        """Answer the frames of each run, up to one that must become a command.

        ``done`` and ``commands_end`` are set. A run whose ``commands_end`` is ``first`` waits for the next
        call; at least one run must make progress. If it raises, it must not have answered any frame from
        ``done`` on: they are answered with SYSTEM_ERROR.

        Args:
            ops: the operations of the body that has read the frames.
            runs: all runs of this kind, in the order of their rows.
        """
        ...
