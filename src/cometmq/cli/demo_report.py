"""How the demo says what it does, and how it judges."""

import sys
import time
from collections import Counter
from typing import Final

import click

from cometmq.errors import CometMQError

TAGS: Final = ("new", "paid", "sent", "lost")


class DemoFailed(CometMQError):
    """Something that the demo promises did not hold."""


def say(text: str) -> None:
    """Print one line at once: what is done next."""
    click.echo(text)
    sys.stdout.flush()


def detail(text: str) -> None:
    """Print one line at once: what came of it."""
    say(f"  {text}")


def speed(messages: int, began: float) -> str:
    """Say how long it took since ``began``, and at which rate."""
    seconds = time.monotonic() - began
    return f"{seconds:.1f} s, {messages / seconds:,.0f}/s"


def by_tag(counts: Counter[str | None]) -> str:
    """Say how many messages there are of each tag."""
    return ", ".join(f"{tag} {counts[tag]:,}" for tag in TAGS if tag in counts)


def check(holds: bool, otherwise: str) -> None:
    """Go on only if it holds."""
    if not holds:
        raise DemoFailed(otherwise)
