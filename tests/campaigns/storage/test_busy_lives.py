"""A few lives with all that a broker does, cut off anywhere, in every run of the tests."""

import itertools
import logging
from random import randrange

import pytest
from tests.campaigns.storage import busy_lives
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

STATES = 40


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_neither_kills_nor_losses_of_power_take_what_was_promised_whatever_else_goes_on(
    strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    outcomes = list(itertools.islice(busy_lives.campaign(strategy, randrange(2**32)), STATES))
    assert sum(outcome.acknowledged for outcome in outcomes) > STATES
    if strategy.is_sync:
        assert sum(outcome.lost for outcome in outcomes) == 0
