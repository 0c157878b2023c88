from collections.abc import Sequence

import pytest

from cometmq.broker.appending import append_legal
from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.store.append import NewMessage


def message(topic: str) -> NewMessage:
    return NewMessage(topic, 0, b"", b"", 0, b"", b"")


class Log:
    """Stores all messages or none, and none with an illegal topic."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.calls = 0
        self.refused: list[str] = []

    def append(self, messages: Sequence[NewMessage]) -> None:
        self.calls += 1
        for one in messages:
            if one.topic == "illegal":
                raise MessageIllegal("no topic has this name")
            if one.topic == "full":
                raise StoreNotWritable("disk full")
        self.topics += [one.topic for one in messages]

    def refuse(self, one: NewMessage, error: MessageIllegal) -> None:
        self.refused.append(f"{one.topic}: {error}")


@pytest.mark.parametrize(("topics", "calls"), [([], 0), (["a", "b"], 1)])
def test_legal_messages_are_appended_together(topics: list[str], calls: int) -> None:
    log = Log()
    append_legal(log.append, [message(topic) for topic in topics], log.refuse)
    assert (log.topics, log.calls, log.refused) == (topics, calls, [])


def test_an_illegal_message_keeps_no_other_out() -> None:
    log = Log()
    append_legal(log.append, [message(topic) for topic in ("a", "illegal", "b")], log.refuse)
    assert (log.topics, log.refused) == (["a", "b"], ["illegal: no topic has this name"])


def test_a_store_that_is_not_writable_is_the_caller_s_concern() -> None:
    log = Log()
    with pytest.raises(StoreNotWritable):
        append_legal(log.append, [message("illegal"), message("full"), message("a")], log.refuse)
    assert log.topics == []
