"""The demo's output and checks."""

import sys
import time
from collections import Counter
from typing import Final

from cometmq.cli.output import print_line
from cometmq.errors import CometMQError

TAGS: Final = ("new", "paid", "sent", "lost")


class DemoFailed(CometMQError):
    """A check of the demo failed."""


def say(text: str) -> None:
    """Print the next step of the demo at once."""
    print_line(text)
    sys.stdout.flush()


def detail(text: str) -> None:
    """Print a result of the current step at once, indented."""
    say(f"  {text}")


def speed(messages: int, began: float) -> str:
    """Return the time since ``began`` and the rate as text."""
    seconds = time.monotonic() - began
    return f"{seconds:.1f} s, {messages / seconds:,.0f}/s"


def by_tag(counts: Counter[str | None]) -> str:
    """Return the number of messages of each tag as text."""
    return ", ".join(f"{tag} {counts[tag]:,}" for tag in TAGS if tag in counts)


def check(holds: bool, otherwise: str) -> None:
    """Raise DemoFailed with the text ``otherwise`` unless the condition holds."""
    if not holds:
        raise DemoFailed(otherwise)
