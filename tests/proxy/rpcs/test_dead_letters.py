import pytest

from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.io.clock import SystemClock
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.messages.receipts import ClientReceipt
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.rpcs.dead_letters import forward_to_dead_letters


async def test_a_message_whose_place_is_not_known_cannot_be_forwarded() -> None:
    handle = ReceiptHandle(0, 0, 0, 0, RetryFlag.NONE, "b", 0, 0)
    brokers = Brokers([], SystemClock())
    with pytest.raises(Failure) as caught:
        await forward_to_dead_letters(brokers, "G", "T", ClientReceipt(handle, -1), "ID")
    assert caught.value.code == pb.INVALID_RECEIPT_HANDLE
