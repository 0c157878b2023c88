"""A short form of the campaign ``durability``: images, in every run of the tests where loop mounts work."""

import logging
import random

import pytest
from tests.campaigns.storage import disk_images
from tests.campaigns.storage.strategies import STRATEGIES

COPIES = 2


@pytest.mark.timeout(600)
def test_a_copy_of_a_disk_at_any_moment_holds_what_was_promised(caplog: pytest.LogCaptureFixture) -> None:
    if (why := disk_images.why_not()) is not None:
        pytest.skip(why)
    caplog.set_level(logging.CRITICAL + 1)
    strategy = random.choice(STRATEGIES)
    *_, outcome = disk_images.campaign(strategy, random.randrange(2**32), COPIES)
    assert outcome.cycles == COPIES
