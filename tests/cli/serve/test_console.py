import json
import signal
import socket
import urllib.request

from tests.cli.conftest import Process, Run

from cometmq.net.address import parse_address
from cometmq.testing.embedded_broker import EmbeddedBroker


def test_it_serves_pages_until_a_signal(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("Orders", 1)
    with Process("console", "--port", "0", "--namesrv", rocketmq.name_server, "--json") as process:
        ready = json.loads(process.line())
        assert ready["name_servers"] == rocketmq.name_server
        with urllib.request.urlopen(f"http://{ready['console']}/topics") as answer:
            assert b"Orders" in answer.read()
        assert process.kill(signal.SIGTERM).code == 0


def test_an_address_that_strangers_reach_is_one_line(cometmq: Run) -> None:
    ran = cometmq("console", "--port", "0", "--host", "0.0.0.0")
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith("error: cannot listen on 0.0.0.0: other machines")


def test_its_limits_are_options(rocketmq: EmbeddedBroker) -> None:
    limits = ("--connections-max", "3", "--waiting-max", "2", "--request-timeout", "100ms")
    served = ("--port", "0", "--namesrv", rocketmq.name_server, "--json")
    with Process("console", *limits, *served) as process:
        place = parse_address(json.loads(process.line())["console"])
        silent = [socket.create_connection(place) for _ in range(3)]
        assert [peer.recv(1) for peer in silent] == [b""] * 3
        for peer in silent:
            peer.close()


def test_no_time_for_a_request_is_one_line(cometmq: Run) -> None:
    ran = cometmq("console", "--port", "0", "--request-timeout", "0s")
    assert ran.failed(2, "--request-timeout", "30s")
