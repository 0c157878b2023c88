from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, serving
from tests.broker.pops import pop_header

from cometmq.broker.refused import Refused
from cometmq.broker.requests.pop.checks import LATE_MS, PopChecks
from cometmq.broker.state.subscriptions import Subscriptions
from cometmq.store.settings import StoreSettings
from cometmq.wire.codes import ResponseCode


def checks_of(bench: Bench) -> PopChecks:
    parts = bench.parts
    subscriptions = Subscriptions(
        parts.topics,
        parts.groups,
        parts.consumers,
        parts.filters,
        permission=6,
        property_filter=False,
        filter_retry=False,
    )
    return PopChecks(subscriptions, StoreSettings(), "broker-a")


async def test_a_pop_is_late_when_its_client_has_given_up_for_half_a_second(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        checks, now = checks_of(bench), bench.clock.now_ms()
        header = pop_header(poll_time=100, born_time=now - 100 - LATE_MS)
        assert checks.check_pop(header, now).topic.topic == "T"
        with pytest.raises(Refused, match="late by 501 ms") as refused:
            checks.check_pop(replace(header, born_time=header.born_time - 1), now)
        assert refused.value.code == ResponseCode.POLLING_TIMEOUT


async def test_a_group_is_made_and_a_filter_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        checks = checks_of(bench)
        checked = checks.check("new", "T", -1, "TAG", "A || B")
        assert checked.wanted.tags_codes == {65, 66}
        assert bench.parts.groups.find("new") is not None
        assert checks.check("new", "T", 3).wanted.tags_codes is None
        with pytest.raises(Refused, match="enablePropertyFilter"):
            checks.check("new", "T", 3, "SQL92", "a > 1")


async def test_the_longest_invisible_time_is_that_of_the_timer(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        checks = checks_of(bench)
        checks.check_invisible_time(3 * 86_400_000)
        with pytest.raises(Refused, match="at most 259200 s are possible"):
            checks.check_invisible_time(3 * 86_400_000 + 1)
