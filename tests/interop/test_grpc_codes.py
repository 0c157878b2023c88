"""The code of each answer: RocketMQ's own proxy beside ours, in front of one RocketMQ broker."""

import asyncio
from pathlib import Path

import pytest
from tests.grpc_codes.asking import CASES, Outcomes, outcomes, prepare
from tests.grpc_codes.differences import rocketmqs
from tests.interop import peers, proxies
from tests.interop.groups import in_group
from tests.interop.peers import Peer

from cometmq.proxy.proxy import Proxy

pytestmark = pytest.mark.interop

OUR_GROUPS = "Codes", "CodesOrdered"
THEIR_GROUPS = "CodesJava", "CodesJavaOrdered"


async def answers(name_server: str, theirs: str) -> tuple[Outcomes, Outcomes]:
    """Return the answers of our proxy, and those of RocketMQ's."""
    await prepare(name_server, OUR_GROUPS[1], THEIR_GROUPS[1], plain=[OUR_GROUPS[0], THEIR_GROUPS[0]])
    async with Proxy([name_server], port=0) as proxy:
        ours = await outcomes(proxy.address, peers.BROKER_NAME, *OUR_GROUPS)
    return ours, await outcomes(theirs, peers.BROKER_NAME, *THEIR_GROUPS)


@pytest.mark.parametrize("broker", [in_group("rocketmq", "shared")], indirect=True)
def test_rocketmqs_proxy_answers_otherwise_where_it_is_explained_and_nowhere_else(
    broker: Peer, tmp_path: Path
) -> None:
    with proxies.rocketmq_proxy(tmp_path / "proxy", broker.namesrv) as (address, _):
        ours, theirs = asyncio.run(answers(broker.namesrv, address))
    assert ours == {str(case): case.outcome for case in CASES}
    assert theirs == {str(case): rocketmqs(case) for case in CASES}
