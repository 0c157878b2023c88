import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Process, Run
from tests.live import BROKER, in_thread

from cometmq.net.address import free_port


@pytest.mark.usefixtures("live")
def test_a_message_is_sent_with_all_that_is_given(cometmq: Run) -> None:
    cometmq("topic", "create", "orders")
    sent = cometmq(
        *("send", "orders", "größer", "--tags", "paid", "--key", "42", "--key", "43"),
        *("--property", "colour=blue=green", "--json"),
    )
    assert sent.code == 0 and sent.err == ""
    (result,) = sent.values
    assert (result["status"], result["topic"], result["broker"]) == ("SEND_OK", "orders", BROKER)
    (message,) = cometmq("consume", "orders", "--json").values
    assert (message["body"], message["tags"], message["keys"]) == ("größer", "paid", ["42", "43"])
    assert message["properties"]["colour"] == "blue=green"
    for name in ("message_id", "offset_id", "queue_id", "queue_offset"):
        assert message[name] == result[name]


@pytest.mark.usefixtures("live")
def test_each_line_of_standard_input_is_a_message_but_no_empty_one(cometmq: Run) -> None:
    cometmq("topic", "create", "lines")
    sent = cometmq("send", "lines", text="one\r\n\ntwo\n three")
    assert sent.code == 0
    assert [line.split()[:2] for line in sent.out.splitlines()] == [["SEND_OK", BROKER]] * 3
    bodies = [message["body"] for message in cometmq("consume", "lines", "--json").values]
    assert sorted(bodies) == [" three", "one", "two"]


@pytest.mark.usefixtures("live")
def test_a_line_is_sent_when_it_comes_and_ctrl_c_ends_the_wait_for_the_next() -> None:
    with Process("send", "typed") as sender:
        sender.type("first\n")
        assert sender.line().startswith(f"SEND_OK {BROKER}")
        sender.type("second\n")
        assert sender.line().startswith(f"SEND_OK {BROKER}")
        ended = sender.kill(signal.SIGINT)
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "created topic typed")


@pytest.mark.usefixtures("live")
def test_bytes_that_are_no_text_are_sent_as_a_body_as_they_are(cometmq: Run) -> None:
    cometmq("topic", "create", "raw")
    assert cometmq("send", "raw", "caf\udce9").code == 0
    (message,) = cometmq("consume", "raw", "--json").values
    assert message["body_hex"] == b"caf\xe9".hex()
    assert "[4 bytes: 636166e9]" in cometmq("consume", "raw").out


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("orders", ""), ("body is empty",)),
        (("orders", "x" * (4 * 1024 * 1024 + 1)), ("4194305 bytes", "4194304")),
        (("a/b", "x"), ("'a/b'", "a-z")),
        (("x" * 128, "x"), ("128 characters", "127")),
        (("orders", "x", "--property", "colour"), ("--property 'colour'", "NAME=VALUE")),
        (("orders", "x", "--property", "=blue"), ("''", "empty")),
        (("orders", "x", "--property", "KEYS=1"), ("'KEYS'", "another name")),
        (("orders", "x", "--key", "a b"), ("'a b'", "blank")),
        (("orders", "x", "--tags", "\udce9"), (r"'\udce9'", "utf-8")),
        (("orders", "x", "y"), ("(y)", "cometmq send --help")),
        ((), ("'TOPIC'", "cometmq send --help")),
    ],
)
def test_what_cannot_be_sent_is_named_with_limit_and_remedy(
    cometmq: Run, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert cometmq("send", *arguments).failed(2, *words)


@pytest.mark.usefixtures("live")
def test_properties_that_are_too_long_are_refused(cometmq: Run) -> None:
    assert cometmq("send", "orders", "x", "--property", f"a={'x' * 32_767}").failed(2, "32767")


@pytest.mark.usefixtures("live")
def test_a_topic_that_takes_no_messages_is_named(cometmq: Run) -> None:
    cometmq("topic", "create", "closed", "--perm", "read-only")
    assert cometmq("send", "closed", "x").failed(3, "'closed'", "perm")


def test_a_name_server_that_is_away_is_named(cometmq: Run) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    assert cometmq("send", "orders", "x", "--namesrv", nobody).failed(1, nobody, "no name server answers")


@pytest.mark.usefixtures("live")
def test_a_topic_that_a_send_creates_is_told_once(cometmq: Run) -> None:
    cometmq("topic", "create", "orders")
    sent = cometmq("send", "ordr", "hello", "--json")
    assert (sent.code, sent.err) == (0, "created topic ordr, nearest 'orders'\n")
    assert sent.values[0]["topic"] == "ordr"
    assert cometmq("send", "ordr", "hello").err == ""
    assert cometmq("send", "lines", text="one\ntwo\n").err.startswith("created topic lines")
    assert cometmq("send", "nothing", text="").err == ""


def test_a_topic_that_is_not_created_is_not_said_to_be(cometmq: Run, tmp_path: Path) -> None:
    with in_thread(tmp_path, auto_create_topic_enable=False) as live:
        sent = cometmq("send", "ordr", "hello", "-n", live.name_server)
        assert sent.code == 3 and "created" not in sent.err.replace("create it", "")
