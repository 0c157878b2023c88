"""Options that several campaigns have."""

from argparse import ArgumentParser
from typing import Final

UNITS: Final = {"MIB": 1 << 20, "GIB": 1 << 30}


def add_numbers(parser: ArgumentParser, **numbers: int) -> None:
    """Add options that are numbers, with their defaults."""
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)


def size_of(text: str) -> int:
    """Return the bytes that a text as ``2GiB`` says. Raises ValueError, which argparse expects."""
    number, unit = text[:-3], text[-3:].upper()
    if unit not in UNITS:
        raise ValueError(text)
    return int(number) * UNITS[unit]
