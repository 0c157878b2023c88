"""What a campaign prints while it runs."""

import time
from typing import Final

BEGIN: Final = time.monotonic()


def tell(what: object) -> None:
    """Print something, and for how long the campaign has run."""
    print(f"{time.monotonic() - BEGIN:5.0f} s  {what}", flush=True)


def print_head(*columns: str) -> None:
    """Print the head of a Markdown table: a first column of words, then columns of numbers."""
    print()
    print_row(*columns)
    print("|---" + "|---:" * (len(columns) - 1) + "|", flush=True)


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    shown = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
    print("|", " | ".join(shown), "|", flush=True)
