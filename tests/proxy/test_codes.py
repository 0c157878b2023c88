"""The code of each answer of the proxy: what ``docs/reference/grpc-codes.md`` says."""

import pytest
from tests.grpc_codes.asking import CASES, Outcomes, outcomes, prepare
from tests.grpc_codes.case import Case

from cometmq.proxy.proxy import Proxy
from cometmq.proxy.rpcs import receiving
from cometmq.testing.embedded_broker import BROKER_NAME, EmbeddedBroker

GROUP, ORDERED = "Codes", "CodesOrdered"
SOON_MS = 50


async def test_each_call_is_answered_with_its_code(
    rocketmq: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare(rocketmq.name_server, ORDERED, plain=[GROUP])

    async def answers(cases: list[Case]) -> Outcomes:
        return await outcomes(proxy.address, BROKER_NAME, GROUP, ORDERED, cases)

    async with Proxy([rocketmq.name_server], port=0) as proxy:
        found = await answers([case for case in CASES if not case.waits])
        monkeypatch.setattr(receiving, "POLLING_MS_MIN", SOON_MS)
        found |= await answers([case for case in CASES if case.waits])
    assert found == {str(case): case.outcome for case in CASES}
