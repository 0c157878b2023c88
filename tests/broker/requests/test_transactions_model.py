"""Transactions held against a model: whatever producers say, ask and repeat, and whenever the broker dies."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.conftest import Bench, serving
from tests.broker.halves import (
    COMMIT,
    IMMUNITY_MS,
    ROLLBACK,
    Half,
    asked,
    check,
    committed,
    end,
    prepare,
    produce,
)

from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/disk/store")
CHECK_AFTER_MS = IMMUNITY_MS + 1

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("prepare"), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 30), st.integers(0, 5), st.sampled_from([COMMIT, ROLLBACK])),
        st.tuples(st.just("check")),
        st.tuples(st.sampled_from(["stop", "kill"])),
    ),
    max_size=40,
)


class Model:
    """What producers have been told and have said.

    Attributes:
        places: of each message, all the places where its half message was, the latest last.
        decisions: of each message that is ended, the first word about it.
        known_since: the first of its places that the broker of now has seen it at.
        passed_ms: how much time has passed.
    """

    def __init__(self) -> None:
        self.places: dict[bytes, list[Half]] = {}
        self.decisions: dict[bytes, int] = {}
        self.known_since: dict[bytes, int] = {}
        self.passed_ms = 0

    def prepared(self, body: bytes, half: Half) -> None:
        self.places[body], self.known_since[body] = [half], 0

    def ended(self, body: bytes, place: int, decision: int) -> None:
        if place >= self.known_since[body]:
            self.decisions.setdefault(body, decision)

    def restarted(self) -> None:
        self.known_since = {body: len(places) - 1 for body, places in self.places.items()}

    @property
    def undecided(self) -> list[bytes]:
        return [body for body in self.places if body not in self.decisions]

    @property
    def committed(self) -> Counter[bytes]:
        return Counter(body for body, decision in self.decisions.items() if decision == COMMIT)


async def take_questions(bench: Bench, model: Model) -> None:
    """Record where the half messages are that a round has asked for: all that nobody has ended."""
    bodies = set()
    async with asyncio.timeout(60):
        for _ in model.undecided:
            half, message = await asked(bench)
            model.places[message.body].append(half)
            bodies.add(message.body)
    assert bodies == set(model.undecided) and bench.told.empty()


async def act(bench: Bench, model: Model, action: tuple[Any, ...]) -> None:
    match action:
        case ("prepare", is_patient):
            named = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"} if is_patient else {}
            body = b"m%d" % len(model.places)
            model.prepared(body, await prepare(bench, body=body, **named))
        case ("end", number, place, decision) if model.places:
            body = list(model.places)[number % len(model.places)]
            place %= len(model.places[body])
            await end(bench, model.places[body][place], decision, from_check=True)
            model.ended(body, place, decision)
        case ("check",):
            await check(bench, CHECK_AFTER_MS)
            model.passed_ms += CHECK_AFTER_MS
            await take_questions(bench, model)


async def live(disk: MemoryDisk, model: Model, actions: list[tuple[Any, ...]]) -> MemoryDisk:
    """Serve until one of the actions ends the broker, or there are no more; give the disk that it leaves."""
    async with serving(ROOT, files=disk, transaction_check_max=10_000) as bench:
        bench.clock.advance(model.passed_ms)
        await produce(bench)
        await bench.parts.ops.read_on()
        while actions:
            action = actions.pop(0)
            if action == ("stop",):
                break
            if action == ("kill",):
                return disk.after_kill()
            await act(bench, model, action)
        assert Counter(committed(bench)) == model.committed
    return disk


@settings(deadline=None)
@given(ACTIONS)
async def test_each_is_ended_once_by_the_first_word_and_all_others_are_asked_for(
    actions: list[tuple[Any, ...]],
) -> None:
    disk, model = MemoryDisk(), Model()
    actions.append(("check",))
    while actions:
        disk = await live(disk, model, actions)
        model.restarted()
