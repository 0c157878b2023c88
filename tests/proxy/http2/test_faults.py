import logging

import pytest

from cometmq.proxy.http2.faults import PeerFault, PeerFaults


async def test_faults_of_a_kind_are_a_line_at_once_and_then_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    faults = PeerFaults()
    for number in range(4):
        faults.add(PeerFault.REFUSED, f"peer-{number}", "no request")
    faults.add(PeerFault.CLOSED, "peer-9", "too many frames")
    faults.close()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "refused a call of peer-0: no request"),
        ("WARNING", "closed the connection of peer-9: too many frames"),
        ("INFO", "refused a call of peer-3: no request (3 such since the last line)"),
    ]
