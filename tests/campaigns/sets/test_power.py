"""A short form of the campaign ``power``: a slave goes on where its master loses power."""

import itertools
import logging
from random import randrange

import pytest
from tests.campaigns.sets.power import fail_in_a_life
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

from cometmq.replication.acks import SlaveAcks

STATES = 20


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_a_slave_has_all_that_was_acknowledged_when_its_master_loses_power(
    strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    outcomes = list(itertools.islice(fail_in_a_life(strategy, randrange(2**32)), STATES))
    assert len(outcomes) == STATES
    assert all(outcome.kept >= outcome.acknowledged for outcome in outcomes)


def test_a_message_that_was_acknowledged_too_early_would_be_missed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    monkeypatch.setattr(SlaveAcks, "replicated_offset", property(lambda acks: acks._end_offset()))
    with pytest.raises(AssertionError, match="power lost after operation") as error:
        list(fail_in_a_life(STRATEGIES[0], 1))
    assert "lost what was promised" in str(error.value.__cause__)
