"""A short form of the campaign ``durability``: kills, in every run of the tests."""

import random

import pytest
from tests.campaigns.storage import kills
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

CYCLES = 3


@pytest.mark.timeout(600)  # four starts of a broker and as many readings of its store, some six seconds
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_a_killed_broker_has_lost_nothing_but_what_the_pool_had_not_committed(
    strategy: Strategy, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = kills.campaign(strategy, random.randrange(2**32), CYCLES)
    with capsys.disabled():
        print(f"\n{strategy.name}: {outcome}")
    assert outcome.acknowledged > CYCLES
