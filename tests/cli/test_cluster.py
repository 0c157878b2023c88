from pathlib import Path

import pytest
from tests.cli.conftest import Ran, Run
from tests.live import BROKER, Live, in_thread

from cometmq import __version__
from cometmq.cli.cluster import _short
from cometmq.namesrv.access import NameServerAccess
from cometmq.net import exposure
from cometmq.testing import EmbeddedBroker, Fault
from cometmq.wire.codes import RequestCode, ResponseCode


def test_the_brokers_are_listed_with_what_passes_through_them(cometmq: Run, live: Live) -> None:
    cometmq("topic", "create", "orders")
    cometmq("send", "orders", "hello")
    ((line,),) = cometmq("cluster", "--json").values
    assert (line["broker_name"], line["broker_id"], line["address"]) == (BROKER, 0, live.broker)
    assert (line["in_today"], line["out_today"]) == (1, 0)
    head, _, row = cometmq("cluster").out.splitlines()
    assert head.split()[:2] == ["cluster", "broker"] and row.split()[:4] == [
        "DefaultCluster",
        BROKER,
        "0",
        live.broker,
    ]


def test_a_broker_that_strangers_can_use_is_told(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exposure, "is_loopback", lambda _: False)
    told = (
        "insecure: whoever reaches 127.0.0.1 can read, send and delete everything, without a signature. "
        "Require signatures by authenticationEnabled = true, or listen on 127.0.0.1"
    )
    with in_thread(tmp_path, insecure=True, access=NameServerAccess(insecure=True)) as live:
        ran = cometmq("cluster", "-n", live.name_server)
        status = cometmq("store", "status", "--broker", live.broker)
    assert (ran.code, ran.err) == (0, f"warning: {BROKER} at {live.broker}: {told}\n")
    assert f"warning: {told}\n" in status.out
    assert f"broker {BROKER} is {told}" in caplog.text


def test_a_broker_of_cometmq_shows_its_own_version(cometmq: Run, rocketmq: EmbeddedBroker) -> None:
    shown = cometmq("cluster", "-n", rocketmq.name_server).out
    assert f"CometMQ {__version__}" in shown and "V5" not in shown
    ((line,),) = cometmq("cluster", "--json", "-n", rocketmq.name_server).values
    assert line["cometmq"] == __version__


def test_a_broker_that_cannot_tell_just_now_is_asked_again(cometmq: Run, rocketmq: EmbeddedBroker) -> None:
    rocketmq.fail_next(request=RequestCode.GET_BROKER_RUNTIME_INFO, answer=ResponseCode.SYSTEM_ERROR)
    ran = cometmq("cluster", "--json", "-n", rocketmq.name_server)
    ((line,),) = ran.values
    assert (ran.code, ran.err, line["trouble"]) == (0, "", None)
    assert line["version"].startswith("V") and line["in_tps"] == 0


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.CUT])
def test_a_broker_that_does_not_tell_is_listed_all_the_same(
    cometmq: Run, rocketmq: EmbeddedBroker, fault: Fault
) -> None:
    def fails(*arguments: str) -> Ran:
        rocketmq.fail_next(3, request=RequestCode.GET_BROKER_RUNTIME_INFO, fault=fault)
        ran = cometmq("cluster", "-n", rocketmq.name_server, *arguments)
        assert ran.failed(1, f"{line['broker_name']} at {line['address']}: ")
        return ran

    ((line,),) = cometmq("cluster", "--json", "-n", rocketmq.name_server).values
    known = ("cluster", "broker_name", "broker_id", "address")
    ((told,),) = fails("--json").values
    assert told.pop("trouble") in fails("--json").err
    assert told == {name: line[name] if name in known else None for name in told}
    assert fails().out.splitlines()[-1].split() == [*(str(line[name]) for name in known), *"--------"]


@pytest.mark.parametrize(
    ("up", "shown"),
    [
        ("0 days, 2 hours, 0 minutes, 5 seconds", "2 hours, 5 seconds"),
        ("10 days, 0 hours, 0 minutes, 0 seconds", "10 days"),
        ("0 days, 0 hours, 0 minutes, 0 seconds", "just started"),
    ],
)
def test_of_the_time_that_a_broker_has_run_only_what_counts_is_shown(up: str, shown: str) -> None:
    assert _short(up) == shown
