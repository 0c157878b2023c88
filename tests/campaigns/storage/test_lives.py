"""A short form of the campaign ``durability``: losses of power, recovered in every run of the tests."""

import itertools
import logging
from collections.abc import Callable, Iterator
from random import randrange

import pytest
from tests.campaigns.storage import busy_lives, power_loss
from tests.campaigns.storage.power_loss import Outcome
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

CAMPAIGNS = {
    "neither kills nor losses of power take what was promised, whatever else goes on": (
        busy_lives.campaign,
        40,
    ),
    "losses of power": (power_loss.campaign, 60),
}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize(("campaign", "states"), CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_what_was_promised_is_kept(
    campaign: Callable[[Strategy, int], Iterator[Outcome]],
    states: int,
    strategy: Strategy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    outcomes = list(itertools.islice(campaign(strategy, randrange(2**32)), states))
    assert sum(outcome.acknowledged for outcome in outcomes) > states
    if strategy.is_sync:
        assert sum(outcome.lost for outcome in outcomes) == 0
