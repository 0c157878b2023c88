"""What methods of producers are given; all public methods are called wrongly in ``tests/rules``."""

from typing import Any

import pytest

from cometmq.client.producer.send_arguments import check_sent, listed
from cometmq.errors import IllegalType
from cometmq.message import Message, MessageQueue

MESSAGE = Message("T", b"x")


def test_a_message_and_where_it_goes_are_checked() -> None:
    for where in (None, MessageQueue("T", "b", 0), lambda queues: queues[0]):
        check_sent(MESSAGE, where)
    wrong: Any = "T"
    with pytest.raises(IllegalType, match="message 'T'"):
        check_sent(wrong, None)
    with pytest.raises(IllegalType, match="queue 'T'"):
        check_sent(MESSAGE, wrong)


def test_messages_come_as_anything_that_can_be_gone_through() -> None:
    class Order(Message, frozen=True):
        """A message of an application's own class."""

    order = Order("T", b"y")
    assert listed(iter((MESSAGE, order))) == [MESSAGE, order]
    wrong: list[Any] = [None, 7, MESSAGE]
    for given in wrong:
        with pytest.raises(IllegalType, match=r"messages .*: give Messages, as a list"):
            listed(given)


def test_what_is_no_message_among_others_is_named() -> None:
    wrong: list[Any] = [MESSAGE, None]
    with pytest.raises(IllegalType, match=r"messages with None \(NoneType\) at 1: give Messages, as a list"):
        listed(wrong)
