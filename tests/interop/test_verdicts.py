"""Who is let through, and who is not: each request by each sender, RocketMQ's broker beside ours."""

from pathlib import Path

import pytest
from tests.interop.groups import in_group
from tests.interop.peers import Peer
from tests.signatures import USER
from tests.verdicts.asking import Verdict, prepare, store_messages, verdicts
from tests.verdicts.cases import broker_cases, name_server_cases
from tests.verdicts.differences import rocketmqs
from tests.verdicts.page import at_our_broker
from tests.verdicts.senders import Sender

pytestmark = pytest.mark.interop

JAVA = [in_group("rocketmq", "signatures")]


@pytest.mark.parametrize("_name", JAVA)
async def test_rocketmqs_verdicts_differ_where_it_is_explained_and_nowhere_else(
    _name: str, java_broker: Peer, tmp_path: Path
) -> None:
    _, ours = await at_our_broker(tmp_path)
    cases = broker_cases(await store_messages(java_broker.broker, USER))
    await prepare(java_broker.broker, USER, cases)
    theirs = await verdicts(java_broker.broker, USER, cases)
    explained = rocketmqs(ours)
    assert [
        f"{case}, {sender}: {verdict}, not {explained[case][sender]}; ours {ours[case][sender]}"
        for case, row in theirs.items()
        for sender, verdict in row.items()
        if verdict is not explained[case][sender]
    ] == []


@pytest.mark.parametrize("_name", JAVA)
async def test_rocketmqs_name_server_lets_everybody_through(_name: str, java_broker: Peer) -> None:
    cases = name_server_cases()
    found = await verdicts(java_broker.namesrv, USER, cases, [Sender.NOBODY])
    assert {verdict for row in found.values() for verdict in row.values()} == {Verdict.PASSED}
