"""Rounds are carried out once each, whoever is killed where, and whatever two jobs at once do."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fsspec import filesystem
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.spark.jobs.export.rounds import (
    UNIT_BYTES,
    UNITS_MAX,
    DoneRounds,
    RoundDone,
    RoundPlan,
    round_end,
    rounds,
)
from cometmq.spark.jobs.export.targets import JobTarget, target_of

STATE = "_job"
END = 35


class TenPlan(RoundPlan, frozen=True, kw_only=True):
    """A round of ten bytes, and how it was asked for."""

    how: str


class TenDone(RoundDone, frozen=True, kw_only=True):
    """What a round of ten bytes did."""

    how: str


class Job:
    """A job that brings ten bytes a round, and can be killed before or after its work."""

    def __init__(self, target: JobTarget, how: str) -> None:
        self.carried_out: list[TenPlan] = []
        self._target = target
        self._how = how
        self.done = DoneRounds(target, STATE, TenDone)

    def run(self, between: Callable[[], object] = lambda: None) -> None:
        """Carry out all rounds; ``between`` is called when a round's work is done, before that is written."""
        for plan in rounds(self._target, STATE, TenPlan, self.done.next_begin, self._plan):
            self.carried_out.append(plan)
            between()
            self.done.add(TenDone(begin=plan.begin, next=plan.end, how=plan.how))

    def _plan(self, begin: int) -> TenPlan | None:
        return TenPlan(begin=begin, end=min(begin + 10, END), how=self._how) if begin < END else None


@pytest.fixture(params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> JobTarget:
    """Return an empty target."""
    filesystem("memory").store.clear()
    return target_of(tmp_path if request.param == "disk" else "memory://lake/target", STATE)


def test_a_run_goes_from_the_last_end_to_the_end_of_the_log(target: JobTarget) -> None:
    job = Job(target, "a")
    assert job.done.last() is None
    job.run()
    assert [(plan.begin, plan.end) for plan in job.carried_out] == [(0, 10), (10, 20), (20, 30), (30, 35)]
    assert job.done.last() == TenDone(begin=30, next=35, how="a")
    assert target.names(STATE) == [f"{30:020}.done.json"]  # what came before is of no use any more
    again = Job(target, "b")
    again.run()
    assert again.carried_out == []


class Killed(BaseException):
    """What ends a job anywhere."""


def kill() -> None:
    raise Killed


def test_a_round_that_was_begun_is_carried_out_as_it_was_planned(target: JobTarget) -> None:
    with pytest.raises(Killed):
        Job(target, "a").run(kill)
    job = Job(target, "b")
    job.run()
    assert [(plan.begin, plan.how) for plan in job.carried_out] == [(0, "a"), (10, "b"), (20, "b"), (30, "b")]


def test_two_jobs_at_once_carry_out_the_same_plans(target: JobTarget) -> None:
    """On object stores nobody can be kept out: the slow one must neither take back nor plan anew."""
    slow, quick = Job(target, "slow"), Job(target, "quick")
    at_second_round = iter([False, True])

    def between() -> None:
        if next(at_second_round, False):
            quick.run()  # does all

    slow.run(between)
    assert [plan.how for plan in quick.carried_out] == ["slow", "quick", "quick"]
    assert [plan.begin for plan in slow.carried_out] == [0, 10]
    assert slow.done.last() == TenDone(begin=30, next=35, how="quick")


def test_a_plan_that_was_made_for_a_round_that_is_over_meanwhile_is_dropped(target: JobTarget) -> None:
    slow, quick = Job(target, "slow"), Job(target, "quick")
    begins = iter([0])

    def next_begin() -> int:  # looked up before the quick job did all
        begin = next(begins, None)
        if begin is None:
            return slow.done.next_begin()
        quick.run()
        return begin

    plan = TenPlan(begin=0, end=7, how="slow")
    assert list(rounds(target, STATE, TenPlan, next_begin, lambda begin: plan if begin == 0 else None)) == []
    assert target.names(STATE) == [f"{30:020}.done.json"]


def test_what_a_round_did_is_read_by_what_knows_less_of_it(target: JobTarget) -> None:
    target.create(f"{STATE}/{0:020}.done.json", msgspec.json.encode({"begin": 0, "next": 7, "more": [1]}))
    assert DoneRounds(target, STATE, RoundDone).last() == RoundDone(begin=0, next=7)


@pytest.mark.parametrize("content", [b"{}", b"[" * 100_000, b"\xff"])
def test_what_no_job_has_written_is_named(target: JobTarget, content: bytes) -> None:
    target.create(f"{STATE}/{0:020}.done.json", content)
    with pytest.raises(FormatError, match=r"0\.done\.json: no job of CometMQ has written this"):
        DoneRounds(target, STATE, RoundDone).last()


@given(st.integers(0, 2**62), st.integers(1, 2**50))
def test_a_round_ends_where_a_file_of_the_export_does(begin: int, left: int) -> None:
    end = round_end(begin, begin + left)
    assert end > begin and end % UNIT_BYTES == 0
    assert end - begin <= UNITS_MAX * UNIT_BYTES


@pytest.mark.parametrize(("gib", "most"), [(8, 1), (64, 8), (10 * 1024, 60)])
def test_a_long_log_takes_few_rounds_however_few_cores_there_are(gib: int, most: int) -> None:
    ends, log_end = [0], gib << 30
    while ends[-1] < log_end:
        ends.append(round_end(ends[-1], log_end))
    assert len(ends) - 1 <= most
