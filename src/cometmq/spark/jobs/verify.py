"""Checking many stores at once: every byte of each, as ``cometmq.store.verify`` does."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from cometmq.spark.jobs.stores import on_each
from cometmq.spark.jobs.watch import Progress
from cometmq.spark.remote import layer_of, path_of
from cometmq.store.finding import Severity
from cometmq.store.settings import StoreSettings
from cometmq.store.verify import State
from cometmq.store.verify import verify as verify_store

UNREADABLE = "unreadable"


class Place(msgspec.Struct, frozen=True):
    """One thing found in a store: see ``cometmq.store.finding.Finding``."""

    severity: str
    path: str
    position: int | None
    size: int | None
    what: str
    remedy: str


class Checked(msgspec.Struct, frozen=True):
    """What the check of one store came to.

    Attributes:
        state: ``sound``, ``needs recovery``, ``damaged`` or, with the reason in ``error``, ``unreadable``.
    """

    store: str
    state: str
    messages: int = 0
    bytes: int = 0
    queues: int = 0
    index_entries: int = 0
    findings: list[Place] = []
    error: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether bytes are lost or wrong, or nobody can tell."""
        return self.state in (State.DAMAGED.value, UNREADABLE)

    @property
    def damages(self) -> int:
        """How many findings are damage."""
        return sum(place.severity == Severity.DAMAGE.value for place in self.findings)


def verify(
    spark: SparkSession,
    stores: Sequence[Path | str],
    settings: StoreSettings | None = None,
    *,
    progress: Progress | None = None,
) -> list[Checked]:
    """Check stores, a task for each; nothing is written. Gives what came of it, in their order.

    Args:
        settings: of the brokers that wrote them; by default the sizes are told from each store's files.
    """

    def work(store: Path) -> Iterator[bytes]:
        yield msgspec.json.encode(_checked(store, settings))

    outcomes = on_each(spark, "verify", stores, work, progress)
    return [
        msgspec.structs.replace(_answer(answers, error), store=str(store))
        for store, answers, error in outcomes
    ]


def _answer(answers: list[bytes], error: str) -> Checked:
    return Checked("", UNREADABLE, error=error) if error else msgspec.json.decode(answers[0], type=Checked)


def _checked(store: Path, settings: StoreSettings | None) -> Checked:
    found = verify_store(store, settings, layer=layer_of(store))
    places = [Place(one.severity.value, str(path_of(one.path)), *one[2:]) for one in found.findings]
    return Checked(
        store=str(store),
        state=found.state.value,
        messages=found.messages,
        bytes=found.bytes,
        queues=found.queues,
        index_entries=found.index_entries,
        findings=places,
    )
