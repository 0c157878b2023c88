import time
from collections import Counter

import pytest

from cometmq.cli.demo.report import DemoFailed, by_tag, check, detail, say, speed


def test_what_holds_lets_the_demo_go_on_and_what_does_not_ends_it() -> None:
    check(True, "all is well")
    with pytest.raises(DemoFailed, match="3 messages are missing"):
        check(False, "3 messages are missing")


def test_lines_are_said_at_once_and_details_are_set_off(capsys: pytest.CaptureFixture[str]) -> None:
    say("Send")
    detail("sent")
    assert capsys.readouterr().out == "Send\n  sent\n"


def test_a_speed_has_the_time_and_the_rate() -> None:
    seconds, rate = speed(1_000_000, time.monotonic() - 100).split(", ")
    assert float(seconds.removesuffix(" s")) == pytest.approx(100, abs=1)
    assert float(rate.removesuffix("/s").replace(",", "")) == pytest.approx(10_000, rel=0.01)


def test_counts_are_said_in_the_order_of_the_tags() -> None:
    assert by_tag(Counter({"sent": 1_000, "new": 2})) == "new 2, sent 1,000"
    assert by_tag(Counter()) == ""
