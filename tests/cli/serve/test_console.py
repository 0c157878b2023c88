import json
import signal
import urllib.request

from tests.cli.conftest import Process, Run

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
