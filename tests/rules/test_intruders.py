"""No request passes that no user has signed: the short form of the campaign ``intruders``."""

from pathlib import Path

import pytest
from tests.campaigns.clients.intruders import Campaign
from tests.campaigns.clients.intruders_requests import Kind

from cometmq.wire.requests import TO_BROKERS

REQUESTS = len(TO_BROKERS) * len(Kind)


@pytest.mark.timeout(600)  # a broker's process, and a request of each code in each way
async def test_no_request_of_any_code_passes_that_no_user_has_signed(tmp_path: Path) -> None:
    outcome = await Campaign(tmp_path, seed=7, connections=4).run(REQUESTS)
    assert not outcome.faults
    assert all(outcome.refused[kind] for kind in Kind)
    assert sum(outcome.refused.values()) + sum(outcome.closed.values()) >= REQUESTS
