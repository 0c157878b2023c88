"""The options of campaigns that run by hand, and the Python processes that they start and kill."""

import argparse
import asyncio
import random
import sys
from asyncio.subprocess import PIPE, Process
from typing import IO, Any, Final

UNITS: Final = {"MIB": 1 << 20, "GIB": 1 << 30}


def options_parser(module: str, description: str | None, **numbers: int) -> argparse.ArgumentParser:
    """Build the parser of a campaign's options: ``numbers`` with their defaults, and a seed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    return parser


def size_of(text: str) -> int:
    """Return the bytes that a text as ``2GiB`` says. Raises ValueError, which argparse expects."""
    number, unit = text[:-3], text[-3:].upper()
    if unit not in UNITS:
        raise ValueError(text)
    return int(number) * UNITS[unit]


async def start_python(
    module: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    stderr: int | IO[Any] | None = None,
) -> Process:
    """Start a module of Python as the first process of a group of its own, its output in a pipe."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdout=PIPE,
        stderr=stderr,
        env=environment,
        start_new_session=True,
    )
