"""What rebalances cost, and that they lose nothing: random histories of consumer groups, lived through.

    python -m tests.campaigns rebalance [--histories 100] [--members 8] [--queues 64] [--steps 8]

Members as processes join, leave and are killed, topics get more queues and fewer, and the broker is restarted
and killed, all under load. Each strategy has a group with an ordered topic and a concurrent one, and all
strategies live through each history (``by_circle`` is what the literature calls round robin); intervals are
a tenth of what they are else (``hurry.py``). A lost message, or an ordered queue with two owners or out of
order, ends the run; its seed shows it again.
"""

import asyncio
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from pathlib import Path

from tests.campaigns.clients.hurry import hurry
from tests.campaigns.clients.rebalance_campaign import live_through
from tests.campaigns.clients.rebalance_history import Kind, Size, draw

COLUMNS = "| strategy | way | histories | handled | lost | two owners | disordered | duplicates |"


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--members", type=int, default=Size().members, help="at first and at most")
    parser.add_argument("--queues", type=int, default=Size().queues, help="of each topic at the beginning")
    parser.add_argument("--steps", type=int, default=Size().steps, help="of each history")
    parser.add_argument("--at-once", type=int, default=2, help="histories side by side")


def main(options: Namespace) -> list[str]:
    """Live through the histories; print a line for each, and a Markdown table of all."""
    hurry()
    sums, wrong = asyncio.run(_live(options))
    print("\n" + ", ".join(f"{count} times {kind.value}" for kind, count in _happened(options).items()))
    print(f"\n{COLUMNS}\n|---|---" + "|---:" * 6 + "|")
    for (strategy, way), counts in sums.items():
        cells = (
            f"{counts[name]:,}"
            for name in ("histories", "handled", "lost", "shared", "disordered", "duplicates")
        )
        print(f"| {strategy} | {way} | {' | '.join(cells)} |")
    return wrong


async def _live(options: Namespace) -> tuple[dict[tuple[str, str], Counter[str]], list[str]]:
    """Return the sums by strategy and way, and what was wrong."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    seeds = iter(range(options.seed, options.seed + options.histories))

    async def live_on() -> None:
        for seed in seeds:
            if wrong:
                return
            begin = time.monotonic()
            with tempfile.TemporaryDirectory() as directory:
                verdicts = await live_through(seed, _size(options), Path(directory))
            for kind, verdict in verdicts.items():
                sums[kind]["histories"] += 1
                for name, value in verdict._asdict().items():
                    sums[kind][name] += value if isinstance(value, int) else len(value)
                if not verdict.is_right:
                    wrong.append(f"history {seed}, {', '.join(kind)}: {verdict}"[:2_000])
            handled = sum(verdict.handled for verdict in verdicts.values())
            duplicates = sum(verdict.duplicates for verdict in verdicts.values())
            seconds = time.monotonic() - begin
            print(
                f"history {seed}: {handled:,} handled, {duplicates:,} twice, {seconds:.0f} s"
                + (": WRONG" if wrong else ""),
                flush=True,
            )

    await asyncio.gather(*(live_on() for _ in range(options.at_once)))
    return sums, wrong


def _happened(options: Namespace) -> Counter[Kind]:
    """Count what the histories consist of."""
    seeds = range(options.seed, options.seed + options.histories)
    return Counter(step.kind for seed in seeds for step in draw(seed, _size(options)))


def _size(options: Namespace) -> Size:
    return Size(options.members, options.queues, options.steps)
