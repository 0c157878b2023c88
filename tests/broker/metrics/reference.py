"""The families that a RocketMQ 5.5.0 broker shows, as ``rocketmq-5.5.0.txt`` lists them."""

from pathlib import Path
from typing import NamedTuple


class ReferenceFamily(NamedTuple):
    kind: str
    labels: frozenset[str]


LINES = Path(__file__).with_name("rocketmq-5.5.0.txt").read_text().splitlines()
REFERENCE = {
    name: ReferenceFamily(kind, frozenset(labels))
    for name, kind, *labels in (line.split() for line in LINES if not line.startswith("#"))
}
