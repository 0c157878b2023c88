import signal

import pytest
from tests.cli.conftest import Process, Run

from cometmq.cli.tail import tail


@pytest.mark.usefixtures("live")
def test_the_last_messages_come_first_in_the_order_of_their_times(cometmq: Run) -> None:
    assert tail.name == "tail"
    cometmq("topic", "create", "orders", "--queues", "2")
    for n in range(12):
        cometmq("send", "orders", str(n), "--tags", "odd" if n % 2 else "even")
    ran = cometmq("tail", "orders", "--no-follow", "--json")
    assert [message["body"] for message in ran.values] == [str(n) for n in range(2, 12)]
    ran = cometmq("tail", "orders", "--no-follow", "--tags", "odd", "--last", "12")
    assert [line.split()[2:] for line in ran.out.splitlines()] == [["odd", str(n)] for n in range(1, 12, 2)]
    assert cometmq("tail", "orders", "--limit", "4", "--json").out.count("\n") == 4
    assert cometmq("tail", "orders", "--last", "0", "--no-follow") == (0, "", "")


@pytest.mark.usefixtures("live")
def test_new_messages_are_printed_as_they_come(cometmq: Run) -> None:
    cometmq("topic", "create", "orders", "--queues", "1")
    cometmq("send", "orders", "old", "--tags", "paid")
    with Process("tail", "orders", "--tags", "paid") as process:
        assert process.line().endswith(" paid old")
        cometmq("send", "orders", "unwanted")
        cometmq("send", "orders", "new", "--tags", "paid")
        assert process.line().endswith(" paid new")
        assert process.kill(signal.SIGINT).code == 130


@pytest.mark.usefixtures("live")
def test_what_cannot_be_done_is_told_with_the_remedy(cometmq: Run) -> None:
    cometmq("topic", "create", "closed", "--perm", "write-only")
    assert cometmq("tail", "closed").failed(3, "'closed'", "perm")
    assert cometmq("tail", "close", "--no-follow").failed(3, "'close'", "nearest 'closed'")
    assert cometmq("tail", "closed", "--tags", "||").failed(2, "--tags")
