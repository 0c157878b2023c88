import pytest

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.message_types import accepted_types, type_of


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ({}, pb.NORMAL),
        ({"TRAN_MSG": "true", "__SHARDINGKEY": "g"}, pb.TRANSACTION),
        ({"DELAY": "3"}, pb.DELAY),
        ({"TIMER_DELIVER_MS": "1", "__SHARDINGKEY": "g"}, pb.DELAY),
        ({"__SHARDINGKEY": "g"}, pb.FIFO),
        ({"_SYS_MSG_PRIORITY_": "1"}, pb.PRIORITY),
        ({"__LITE_TOPIC": "l"}, pb.LITE),
    ],
)
def test_the_type_follows_from_the_properties(named: dict[str, str], kind: pb.MessageType) -> None:
    assert type_of(named) == kind


def test_a_topic_accepts_the_type_of_its_attribute() -> None:
    assert accepted_types({}) == (pb.NORMAL,)
    assert accepted_types({"message.type": "FIFO"}) == (pb.FIFO,)
    assert accepted_types({"message.type": "MIXED"}) == (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION)
    assert accepted_types({"message.type": "other"}) == ()
