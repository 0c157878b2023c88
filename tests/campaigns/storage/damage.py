"""Stores damaged at every place, one case at a time: no wrong message may be given out, no sound one lost.

    python -m tests.campaigns damage [--flips 20000] [--no-cuts] [--property-crc] [--replay CASE]

By default 20,000 flips and every cut, over stores that were closed and killed, in two processes. A line of
the list of failures names the case: ``--replay`` runs it again and tells all.
"""

import multiprocessing
import signal
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection, wait

from tests.campaigns.kit.progress import print_head, print_row
from tests.campaigns.storage import damage_cases

from cometmq import kernels

CASE_SECONDS_MAX = 30
"""A case that takes longer hangs: its process is ended by the system, wherever it is."""
FAILURES_SHOWN = 20

Row = tuple[str, str, str]


def options(parser: ArgumentParser) -> None:
    """Add the options; the seed is the number of the first flip."""
    parser.set_defaults(seed=0)
    parser.add_argument("--flips", type=int, default=20_000, help="how many bits to flip, one a case")
    parser.add_argument("--no-cuts", action="store_true", help="only flips")
    parser.add_argument("--property-crc", action="store_true", help="with enabledAppendPropCRC")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--replay", metavar="CASE", help="one case, as the table names it: flip-17, cut-4711")


def main(options: Namespace) -> list[str]:
    """Run it, and print the table."""
    kernels.load()
    variants = [damage_cases.Variant(closed, options.property_crc) for closed in (True, False)]
    for variant in variants:
        damage_cases.sample_of(variant)  # made once, before the processes part
    if options.replay:
        case = find_case(variants, options.replay)
        print(case, *damage_cases.run(case), sep="\n  ")
        return []
    numbers = [f"flip-{number}" for number in range(options.seed, options.seed + options.flips)]
    if not options.no_cuts:
        numbers += [f"cut-{number}" for number in range(sum(1 for _ in all_cuts(variants)))]
    begin = time.monotonic()
    rows, failures = run_all(variants, numbers, options.processes)
    print_table(rows, failures, time.monotonic() - begin)
    return [f"{name}: {detail}" for name, detail in islice(failures.items(), FAILURES_SHOWN)]


def find_case(variants: Sequence[damage_cases.Variant], name: str) -> damage_cases.Case:
    """Return the case of a name."""
    how, _, number = name.partition("-")
    if how == "flip":
        return damage_cases.flip_case(
            variants[int(number) // len(damage_cases.Kind) % len(variants)], int(number)
        )
    return next(islice(all_cuts(variants), int(number), None))


def all_cuts(variants: Sequence[damage_cases.Variant]) -> Iterator[damage_cases.Case]:
    """Yield all cuts."""
    for variant in variants:
        for kind in damage_cases.Kind:
            yield from damage_cases.cut_cases(variant, kind)


def run_all(
    variants: Sequence[damage_cases.Variant], names: Sequence[str], processes: int
) -> tuple[Counter[Row], dict[str, str]]:
    """Run cases in processes; what came out by kind of file, and the failures by name."""
    rows: Counter[Row] = Counter()
    failures: dict[str, str] = {}
    context = multiprocessing.get_context("fork")
    parts = [list(names[number::processes]) for number in range(processes)]
    while any(parts):
        done, workers = [0] * len(parts), {}
        for number, part in enumerate(parts):
            reader, writer = context.Pipe(duplex=False)
            worker = context.Process(target=work, args=(variants, part, writer))
            worker.start()
            writer.close()
            workers[reader] = number, worker
        while workers:
            ready = wait(list(workers))
            for reader in [reader for reader in workers if reader in ready]:
                number, worker = workers[reader]
                try:
                    name, kind, verdict = reader.recv()
                except EOFError:
                    worker.join()
                    del workers[reader]
                    if done[number] < len(parts[number]):  # it was ended in the middle of a case
                        name = parts[number][done[number]]
                        failures[name] = (
                            f"hangs for {CASE_SECONDS_MAX} s, or ends the process ({worker.exitcode})"
                        )
                    continue
                done[number] += 1
                rows[kind, "flip" if name.startswith("flip") else "cut", _text(verdict)] += 1
                if verdict.outcome is damage_cases.Outcome.FAILED:
                    failures[name] = verdict.detail
        parts = [part[count + 1 :] for part, count in zip(parts, done, strict=True)]
    return rows, failures


def work(variants: Sequence[damage_cases.Variant], names: Sequence[str], writer: Connection) -> None:
    """Run cases one after the other, and send what came out of each."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    cuts: list[damage_cases.Case] = (
        list(all_cuts(variants)) if any(name.startswith("cut") for name in names) else []
    )
    for name in names:
        case = cuts[int(name[4:])] if name.startswith("cut") else find_case(variants, name)
        signal.alarm(CASE_SECONDS_MAX)
        verdict = damage_cases.run(case)
        signal.alarm(0)
        kind = damage_cases.kind_of(case.path)
        assert kind is not None
        writer.send((name, kind.value, verdict))
    writer.close()


def _text(verdict: damage_cases.Verdict) -> str:
    is_field = verdict.outcome is damage_cases.Outcome.UNDETECTABLE
    return f"{verdict.outcome.value}: {verdict.detail}" if is_field else verdict.outcome.value


def print_table(rows: Counter[Row], failures: dict[str, str], seconds: float) -> None:
    """Print what came out: kinds of files and damage, by verdict; then what no check can see, by field."""
    outcomes = [outcome.value for outcome in damage_cases.Outcome]
    print_head("file", "damage", "cases", *outcomes)
    for kind in damage_cases.Kind:
        for how in ("flip", "cut"):
            counts = [
                sum(count for (of, by, text), count in rows.items() if (of, by) == (kind.value, how)
                    and text.split(":")[0] == outcome)
                for outcome in outcomes
            ]  # fmt: skip
            if sum(counts):
                print_row(kind.value, how, sum(counts), *counts)
    fields: Counter[tuple[str, str]] = Counter()
    for (_, how, text), count in rows.items():
        if ": " in text:
            fields[text.partition(": ")[2], how] += count
    print_head("undetectable by the format", "flips", "cuts")
    for field in dict.fromkeys(field for (field, _), _ in fields.most_common()):
        print_row(field, fields[field, "flip"], fields[field, "cut"])
    total = sum(rows.values())
    print(
        f"\n{total} cases in {seconds:.0f} s, {1000 * seconds / max(total, 1):.1f} ms each; "
        f"{len(failures)} failed"
    )
