"""The targets of pulls: checked once, cached, and checked again when the state changes."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from cometmq.broker.refused import Refused
from cometmq.broker.requests import pull_targets
from cometmq.broker.requests.pull_targets import UNCACHED, PullTargets
from cometmq.broker.state.subscriptions import PullFilter, Subscriptions
from cometmq.errors import CometMQError, HeaderError
from cometmq.kernels.pulls.plain import key_of, row_of
from cometmq.kernels.pulls.rows import IS_FILTERED, NO_NUMBER, QUEUE_NUMBER
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import PullHeader, fields

PULL = RequestCode.PULL_MESSAGE


class Checks:
    """Checks by the topic: ``No…`` is refused, ``Odd…`` has a filter by properties."""

    def __init__(self) -> None:
        self.count = 0
        self.changed: Callable[[], object] = lambda: None

    def when_changed(self, action: Callable[..., object]) -> None:
        self.changed = action

    def check_pull(self, header: PullHeader) -> PullFilter:
        self.count += 1
        if header.topic.startswith("No"):
            raise Refused(ResponseCode.NO_PERMISSION, "no")
        if header.topic.startswith("Odd"):
            return PullFilter(record_filter=cast(Any, object()))
        return PullFilter(frozenset({7}) if header.topic == "Tagged" else None)


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def targets(checks: Checks) -> PullTargets:
    return PullTargets(cast(Subscriptions, checks), lite_pull=False)


def header_of(topic: str) -> PullHeader:
    return PullHeader("group", topic, 3, 0, 1, 0, 0, 0)


def cache(targets: PullTargets, topic: str) -> int:
    """Cache a target; return its number."""
    header = header_of(topic)
    request = Command(PULL, ext_fields=fields(header))
    key = key_of(request.code, header)
    assert key is not None
    row = row_of(request, header)._replace(key_at=0, key_end=len(key))
    try:
        targets.check_new(request, row, np.frombuffer(key, np.uint8))
    except CometMQError:
        assert topic.startswith("No")
    return targets.table.numbers[key]


def test_a_target_is_cached_by_its_number(targets: PullTargets) -> None:
    assert [cache(targets, topic) for topic in ("A", "Tagged", "A")] == [0, 1, 0]
    assert [target.queue for target in targets.by_number] == [("A", 3), ("Tagged", 3)]
    assert [target.tags_codes for target in targets.by_number] == [None, frozenset({7})]
    assert targets.table.rows[:2, QUEUE_NUMBER].tolist() == [NO_NUMBER, NO_NUMBER]
    assert targets.table.rows[:2, IS_FILTERED].tolist() == [False, True]


def test_what_is_refused_or_rare_is_checked_each_time(targets: PullTargets) -> None:
    assert [cache(targets, topic) for topic in ("No1", "Odd1")] == [0, 1]
    assert targets.by_number == [UNCACHED, UNCACHED]
    assert targets.check(PULL, header_of("Odd1")).is_rare


def test_there_is_room_for_any_number_of_targets(targets: PullTargets) -> None:
    assert [cache(targets, f"T{n}") for n in range(300)] == list(range(300))
    assert len(targets.table) == len(targets.by_number) == 300


def test_all_is_dropped_when_the_state_changes_or_too_much_is_cached(
    targets: PullTargets, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache(targets, "A")
    checks.changed()
    assert targets.by_number == [] and len(targets.table) == 0
    monkeypatch.setattr(pull_targets, "TARGETS_MAX", 3)
    assert [cache(targets, f"T{n}") for n in range(5)] == [0, 1, 2, 0, 1]


def test_pulls_are_refused_with_the_reason(targets: PullTargets, checks: Checks) -> None:
    with pytest.raises(Refused, match="no"):
        targets.check(PULL, header_of("No1"))
    with pytest.raises(Refused, match="LITE_PULL_MESSAGE is switched off here"):
        targets.check(RequestCode.LITE_PULL_MESSAGE, header_of("A"))
    with pytest.raises(HeaderError):
        targets.check_request(Command(PULL))
    assert checks.count == 1


def test_a_target_is_checked_again_by_its_header(targets: PullTargets, checks: Checks) -> None:
    target = targets.check(PULL, header_of("Tagged"))
    again = targets.check_again(target)
    assert again is not target and again.header == target.header and checks.count == 2
