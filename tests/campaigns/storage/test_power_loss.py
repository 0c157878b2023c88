"""A short form of the campaign ``durability``: losses of power, recovered in every run of the tests."""

import itertools
import logging
from random import randrange

import pytest
from tests.campaigns.storage import power_loss
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

STATES = 60


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_no_loss_of_power_takes_what_was_promised(
    strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    outcomes = list(itertools.islice(power_loss.campaign(strategy, randrange(2**32)), STATES))
    assert sum(outcome.acknowledged for outcome in outcomes) > STATES
    if strategy.is_sync:
        assert sum(outcome.lost for outcome in outcomes) == 0
