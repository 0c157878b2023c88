"""Damage a store, open it, read everything: one case at a time, each replayed from its number.

A case is judged by what a reader gets, not by what recovery says of itself:

* ``unharmed``: all messages are read back by queue, by key and by id, and nothing was said.
* ``repaired``: all are, and what was put right was logged.
* ``error``: the message that was hit is not given out; the log or the exception names file and place.
  Or the store does not open, and the exception names the file and a remedy.
* ``undetectable``: the message that was hit is given out with another value in a field that nothing guards.
* ``FAILED``: anything else: a wrong message, an undamaged one missing, another exception.
"""

import logging
import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace
from tests.campaigns.storage.copied_disk import CopiedDisk
from tests.campaigns.storage.damage_reading import read_all
from tests.campaigns.storage.damage_sample import (
    MESSAGES,
    ROOT,
    SETTINGS,
    TABLES,
    Sample,
    fields_of,
    make_sample,
)

from cometmq.errors import CometMQError
from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore
from cometmq.store.log.seek import record_store_time
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk

UNGUARDED: Final = (
    "BODYCRC", "QUEUEID", "FLAG", "QUEUEOFFSET", "SYSFLAG", "BORNTIMESTAMP", "BORNHOST", "STORETIMESTAMP",
    "STOREHOST", "RECONSUMETIMES", "PREPARED OFFSET", "topic", "properties",
)  # fmt: skip
"""Fields that no check of the default record covers; BODYCRC is one where the body is empty."""
CUT_RECORDS: Final = 3
EMPTY_MAX: Final = 200
"""A record of the sample that is not longer has an empty body."""


class Kind(Enum):
    """What kind of file is damaged."""

    COMMIT_LOG = "CommitLog"
    CONSUME_QUEUE = "ConsumeQueue"
    INDEX = "Index"
    CHECKPOINT = "checkpoint"
    CONFIG = "config JSON"


class Outcome(Enum):
    """How a case ended; ``FAILED`` is the only bad one."""

    UNHARMED = "unharmed"
    REPAIRED = "repaired"
    ERROR = "error"
    UNDETECTABLE = "undetectable"
    FAILED = "FAILED"


class Verdict(NamedTuple):
    """How a case ended, and what tells more: the field, or what failed."""

    outcome: Outcome
    detail: str = ""


class Variant(NamedTuple):
    """How the store was made."""

    closed: bool
    property_crc: bool = False
    messages: int = MESSAGES

    def __str__(self) -> str:
        crc = ", property CRC" if self.property_crc else ""
        return ("closed" if self.closed else "killed") + crc


class Case(NamedTuple):
    """One damage.

    Attributes:
        position: the byte that is damaged, or the first one that is cut off.
        bit: which bit is flipped; CUT cuts the file off there, TORN writes zeros from there on.
    """

    variant: Variant
    path: Path
    position: int
    bit: int

    def __str__(self) -> str:
        how = {CUT: "cut at", TORN: "zeros from"}.get(self.bit, f"bit {self.bit} of")
        return f"{self.variant}: {self.path}: {how} byte {self.position}"


CUT, TORN = -1, -2


@cache
def sample_of(variant: Variant) -> Sample:
    """Return the store of a variant, made once."""
    settings = SETTINGS
    if variant.property_crc:
        settings = replace(settings, enabled_append_prop_crc=True, force_verify_prop_crc=True)
    return make_sample(closed=variant.closed, count=variant.messages, settings=settings)


def kind_of(path: Path) -> Kind | None:
    """Return what a file of the store is; None for those that are not damaged here."""
    if path == layout.checkpoint_path(ROOT):
        return Kind.CHECKPOINT
    if path.parent == layout.config_dir(ROOT):
        return Kind.CONFIG
    if path.parent == layout.index_dir(ROOT):
        return Kind.INDEX
    if path.parent == layout.commitlog_dir(ROOT):
        return Kind.COMMIT_LOG
    return Kind.CONSUME_QUEUE if layout.consume_queues_dir(ROOT) in path.parents else None


def flip_case(variant: Variant, seed: int) -> Case:
    """Return the case of a seed: kinds of files in turn, a file by its length, a place in its data."""
    chance = Random(seed)
    kind = list(Kind)[seed % len(Kind)]
    extents = extents_of(variant, kind)
    path, size = chance.choices(extents, [size for _, size in extents])[0]
    return Case(variant, path, chance.randrange(size), chance.randrange(8))


@cache
def extents_of(variant: Variant, kind: Kind) -> list[tuple[Path, int]]:
    """Return the files of a kind, with the length of their data and a little of what follows."""
    files = sample_of(variant).disk._files
    found = [(path, content.data) for path, content in sorted(files.items()) if kind_of(path) is kind]
    return [(path, min(len(data), len(data.rstrip(b"\0")) + 40)) for path, data in found]


def cut_cases(variant: Variant, kind: Kind) -> Iterator[Case]:
    """Yield a cut at every byte of the last three records or entries of each file.

    In the first and the last file of each chain also zeros from there on, in a file that keeps its length.
    """
    extents = extents_of(variant, kind)
    directories = [path.parent for path, _ in extents]
    for number, (path, size) in enumerate(extents):
        data = sample_of(variant).disk._files[path].data
        is_edge = directories[number - 1 : number + 2].count(path.parent) < 3
        for position in range(cut_begin(variant, kind, path), min(size, len(data))):
            yield Case(variant, path, position, CUT)
            if is_edge:
                yield Case(variant, path, position, TORN)


def cut_begin(variant: Variant, kind: Kind, path: Path) -> int:
    """Return where the third last record or entry of a file begins."""
    end = dict(extents_of(variant, kind))[path]
    if kind is Kind.COMMIT_LOG:
        start = layout.parse_offset_name(path.name)
        offsets = [at for at in sample_of(variant).wanted.records if start <= at < start + end]
        return offsets[-CUT_RECORDS] - start
    sizes = {Kind.CONSUME_QUEUE: 20, Kind.INDEX: 20, Kind.CHECKPOINT: 48, Kind.CONFIG: 40}
    return max(end - 40 - CUT_RECORDS * sizes[kind], 0)


class _Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def run(case: Case) -> Verdict:
    """Damage a copy of the store, open it, read all, and judge; the same bytes are judged once."""
    return _judged(_same_bytes(case))


def _same_bytes(case: Case) -> Case:
    """Return the case that stands for all that leave the same bytes: zeros for zeros change nothing."""
    if case.bit != TORN:
        return case
    data = sample_of(case.variant).disk._files[case.path].data
    behind = data[case.position :]
    return case._replace(position=case.position + len(behind) - len(behind.lstrip(b"\0")))


@cache
def _judged(case: Case) -> Verdict:
    heard, logger = _Heard(), logging.getLogger("cometmq")
    logger.addHandler(heard)
    before, logger.propagate = logger.propagate, False
    try:
        return _run(case, heard)
    except CometMQError as error:
        return _judge_error(case, str(error))
    except Exception as error:  # noqa: BLE001 - which exceptions come is what is asked
        return Verdict(Outcome.FAILED, f"{type(error).__name__}: {error}")
    finally:
        logger.removeHandler(heard)
        logger.propagate = before


def _run(case: Case, heard: _Heard) -> Verdict:
    sample = sample_of(case.variant)
    disk = _damaged(sample.disk, case)
    hit, field = _hit(case, sample)
    with MessageStore.open(ROOT, sample.settings, files=disk, clock=ManualClock(10**13)) as store:
        missing, changed = read_all(store, sample, disk, hit, case.position)
    if missing - hit or changed - hit:
        text = f"undamaged: {len(missing - hit)} missing, {len(changed - hit)} changed"
        return Verdict(Outcome.FAILED, f"{text}: {sorted((missing | changed) - hit)[:3]}")
    if changed:
        known = field in UNGUARDED and not case.variant.property_crc
        return Verdict(Outcome.UNDETECTABLE if known else Outcome.FAILED, field or "given out damaged")
    if missing and _is_gone(case, sample, min(missing)):
        return Verdict(Outcome.UNDETECTABLE, "a whole record behind the checkpoint, at a killed log's end")
    if missing:
        named = any(case.path.name in line for line in heard.lines)
        return (
            Verdict(Outcome.ERROR)
            if named
            else Verdict(Outcome.FAILED, f"nothing said of a lost message ({field})")
        )
    if kind_of(case.path) is Kind.CONFIG and (table := _read_table(disk, sample, case)) is not None:
        return (
            table
            if heard.lines or table.outcome is not Outcome.REPAIRED
            else Verdict(Outcome.FAILED, "silent")
        )
    return Verdict(Outcome.REPAIRED if heard.lines else Outcome.UNHARMED)


def _damaged(disk: MemoryDisk, case: Case) -> MemoryDisk:
    """Return a copy of the disk with the damage in it."""
    copy = CopiedDisk.of(disk)
    data = copy._files[case.path].data
    if case.bit == CUT:
        del data[case.position :]
    elif case.bit == TORN:
        data[case.position :] = bytes(len(data) - case.position)
    else:
        data[case.position] ^= 1 << case.bit
    copy.put(case.path, bytes(data), synced=disk._files[case.path].synced)
    return copy


def _hit(case: Case, sample: Sample) -> tuple[set[int], str]:
    """Return the records that are damaged, by CommitLog offset, and which field of the one that is."""
    if kind_of(case.path) is not Kind.COMMIT_LOG:
        return set(), ""
    start = layout.parse_offset_name(case.path.name)
    at = start + case.position
    offsets = _offsets(case.variant)
    first = bisect_right(offsets, at) - 1
    if first < 0:
        return set(), ""
    data = sample.wanted.records[offsets[first]]
    if at >= offsets[first] + len(data):
        first, field = first + 1, ""
    else:
        field = next(name for end, name in fields_of(data) if at - offsets[first] < end)
        if field == "BODYCRC" and len(data) > EMPTY_MAX:
            field = "BODYCRC of a body"
        if case.bit >= 0:
            return {offsets[first]}, field
    behind = bisect_right(offsets, start + sample.settings.mapped_file_size_commit_log - 1)
    return (set(offsets[first:behind]) if case.bit < 0 else set()), field


def _is_gone(case: Case, sample: Sample, first: int) -> bool:
    """Return whether zeros took all of the log's last records, which nobody vouched for yet."""
    if case.variant.closed or case.bit != TORN or kind_of(case.path) is not Kind.COMMIT_LOG:
        return False
    data, at = sample.wanted.records[first], layout.parse_offset_name(case.path.name) + case.position
    vouched = Checkpoint.unpack(sample.disk.load(layout.checkpoint_path(ROOT))).physic_msg_timestamp
    return not data[: max(at - first, 0)].strip(b"\0") and record_store_time(data) > vouched


@cache
def _offsets(variant: Variant) -> list[int]:
    return sorted(sample_of(variant).wanted.records)


def _read_table(disk: MemoryDisk, sample: Sample, case: Case) -> Verdict | None:
    """Read the table that was damaged, as the broker does: None if it is what it was."""
    name = case.path.name.split(".")[0]
    if name not in TABLES:
        return None
    value = JsonTable(disk, layout.config_path(ROOT, name)).load()
    if value == sample.wanted.tables[name]:
        return None
    if value is None:
        return Verdict(Outcome.FAILED, "the table is lost")
    older = JsonTable(sample.disk, layout.backup_path(layout.config_path(ROOT, name))).load()
    return Verdict(Outcome.REPAIRED) if value == older else Verdict(Outcome.UNDETECTABLE, "a value in JSON")


def _judge_error(case: Case, text: str) -> Verdict:
    names_file = case.path.name in text or str(case.path) in text
    has_remedy = re.search(r"(;|:) *(set|run|restore|remove|move)", text)
    if names_file and has_remedy:
        return Verdict(Outcome.ERROR)
    return Verdict(Outcome.FAILED, f"an error that does not help: {text}")
