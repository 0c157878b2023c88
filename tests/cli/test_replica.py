"""``cometmq replica status``."""

from tests.cli.conftest import Run
from tests.live import BROKER, Live

from cometmq.testing import EmbeddedBroker, Fault
from cometmq.wire.codes import RequestCode


def test_a_master_without_slaves_is_listed(cometmq: Run, live: Live) -> None:
    ran = cometmq("replica", "status")
    head, _, row = ran.out.splitlines()
    assert head.split() == ["broker", "id", "address", "role", "log", "end", "behind", "slaves", "in", "sync"]
    assert row.split() == [BROKER, "0", live.broker, "master", "0", "-", "0", "0"] and ran.code == 0
    ((line,),) = cometmq("replica", "status", "--json").values
    assert (line["role"], line["slaves"], line["connected"], line["problem"]) == ("master", 0, [], None)


def test_a_broker_that_does_not_answer_is_an_error(cometmq: Run, rocketmq: EmbeddedBroker) -> None:
    rocketmq.fail_next(request=RequestCode.GET_BROKER_HA_STATUS, fault=Fault.CUT)
    ran = cometmq("replica", "status", "-n", rocketmq.name_server)
    assert ran.code == 1 and ran.err.startswith("error: embedded at ")
