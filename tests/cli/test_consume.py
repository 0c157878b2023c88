import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Process, Run
from tests.live import Live, in_thread

from cometmq.net.address import free_port


def bodies(cometmq: Run, *arguments: str) -> list[str]:
    ran = cometmq("consume", *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    return [message["body"] for message in ran.values]


def send(cometmq: Run, topic: str, *lines: str, tags: str = "") -> None:
    """Send lines to a topic of one queue, so that they keep their order."""
    cometmq("topic", "create", topic, "--queues", "1")
    given = ("--tags", tags) if tags else ()
    assert cometmq("send", topic, *given, text="\n".join(lines)).code == 0


@pytest.mark.usefixtures("live")
def test_messages_are_printed_oldest_first_up_to_the_limit(cometmq: Run) -> None:
    send(cometmq, "T", *map(str, range(100)))
    assert bodies(cometmq, "T") == [str(n) for n in range(100)]
    assert bodies(cometmq, "T", "--limit", "7") == [str(n) for n in range(7)]
    first = cometmq("consume", "T", "--limit", "1").out.split()
    assert first[0].endswith("Z") and first[1:] == ["0:0", "-", "0"]


@pytest.mark.usefixtures("live")
def test_a_tag_expression_chooses(cometmq: Run) -> None:
    send(cometmq, "T", "1", "2", tags="A")
    send(cometmq, "T", "3", tags="B")
    send(cometmq, "T", "4")
    assert bodies(cometmq, "T", "--tags", "B || A") == ["1", "2", "3"]
    assert bodies(cometmq, "T", "--tags", "B") == ["3"]
    assert bodies(cometmq, "T", "--tags", "C") == []
    assert cometmq("consume", "T", "--tags", "||").failed(2, "--tags", "'TagA || TagB'")


@pytest.mark.usefixtures("live")
def test_a_condition_is_for_the_broker_to_judge(cometmq: Run) -> None:
    send(cometmq, "T", "1")
    assert cometmq("consume", "T", "--sql", "size > 3").failed(1, "set enablePropertyFilter")
    assert cometmq("consume", "T", "--sql", "a = 1", "--tags", "A").failed(2, "--sql and --tags")


@pytest.mark.usefixtures("live")
def test_a_group_goes_on_where_it_was(cometmq: Run) -> None:
    send(cometmq, "T", *"abcdefgh")
    assert bodies(cometmq, "T", "--group", "g", "--limit", "3") == ["a", "b", "c"]
    assert bodies(cometmq, "T", "--group", "other", "--limit", "1") == ["a"]
    assert bodies(cometmq, "T", "--limit", "1") == ["a"]
    assert bodies(cometmq, "T", "--group", "g", "--follow", "--limit", "2") == ["d", "e"]
    assert bodies(cometmq, "T", "--group", "g") == ["f", "g", "h"]
    assert bodies(cometmq, "T", "--group", "g") == []


@pytest.mark.usefixtures("live")
def test_following_prints_what_comes_and_ctrl_c_commits_what_was_printed(cometmq: Run) -> None:
    send(cometmq, "T", "old")
    with Process("consume", "T", "--group", "g", "--follow") as consumer:
        assert consumer.line().endswith(" old")
        for body in ("new", "newer"):
            cometmq("send", "T", body, "--tags", "\x1b[2J")
            assert consumer.line().endswith(rf" \x1b[2J {body}")
        ended = consumer.kill(signal.SIGINT)
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "")
    send(cometmq, "T", "last")
    assert bodies(cometmq, "T", "--group", "g") == ["last"]


@pytest.mark.usefixtures("live")
def test_latest_passes_over_what_is_there(cometmq: Run) -> None:
    send(cometmq, "T", "old")
    with Process("consume", "T", "--follow", "--latest", "--limit", "1", "--json") as consumer:
        while consumer.is_running:
            cometmq("send", "T", "new")
        assert [message["body"] for message in consumer.end().values] == ["new"]
    assert cometmq("consume", "T", "--latest").failed(2, "--latest", "--follow")


def test_following_goes_on_when_a_broker_comes_back(cometmq: Run, tmp_path: Path) -> None:
    ports = {"listen_port": free_port(), "namesrv_port": free_port()}
    with in_thread(tmp_path, **ports) as live:
        namesrv = ("--namesrv", live.name_server)
        assert cometmq("send", "T", "before", *namesrv).code == 0
        consumer = Process("consume", "T", "--follow", "--group", "g", *namesrv)
        assert consumer.line().endswith(" before")
    with consumer:
        assert live.broker in (told := consumer.told()) and told.endswith("; trying again")
        with in_thread(tmp_path, **ports):
            assert cometmq("send", "T", "after", *namesrv).code == 0
            assert consumer.line().endswith(" after")
            ended = consumer.kill(signal.SIGINT)
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "")


def test_what_is_not_there_or_away_is_named(cometmq: Run, live: Live) -> None:
    assert cometmq("consume", "nosuch").failed(3, "'nosuch'", live.name_server)
    send(cometmq, "closed", "x")
    cometmq("topic", "create", "closed", "--perm", "write-only")
    assert cometmq("consume", "closed").failed(3, "'closed'", "perm")
    assert cometmq("consume", "T", "--group", "a b").failed(2, "'a b'", "a-z")
    assert cometmq("consume", "T", "--group", "").failed(2, "group is empty")
    assert cometmq("consume", "T", "--limit", "0").failed(2, "--limit", "x>=1")
    nobody = f"127.0.0.1:{free_port()}"
    assert cometmq("consume", "T", "--namesrv", nobody).failed(1, nobody, "no name server answers")


@pytest.mark.parametrize("command", [("consume", "T", "--follow"), ("tail", "T")])
def test_what_follows_waits_for_the_name_server_and_then_for_the_topic(
    cometmq: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    port = free_port()
    with Process(*command, "--namesrv", f"127.0.0.1:{port}") as follower:
        told = follower.told()
        assert "no name server answers" in told and told.endswith("; trying again")
        with in_thread(tmp_path, namesrv_port=port) as live:
            told = follower.told()
            while "no route for topic 'T'" not in told:  # the broker had not registered yet
                told = follower.told()
            assert told.endswith("cometmq topic create T; trying again")
            assert cometmq("send", "T", "first", "--namesrv", live.name_server).code == 0
            assert follower.line().endswith(" first")
            ended = follower.kill(signal.SIGINT)
    assert (ended.code, ended.err.strip()) == (130, "")
