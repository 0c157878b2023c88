import pytest
from tests.interop.jvm import Run
from tests.interop.peers import Peer
from tests.interop.received import each_once

pytestmark = pytest.mark.interop

COUNT = 10_000
QUEUES = 4
KINDS = 4  # sync, async, oneway, batch


def test_consumers_receive_each_message_that_was_meant_for_them_once(
    broker: Peer, serialize_type: str, run_java: Run
) -> None:
    sent, pushed, pulled, places = run_java(
        "SendAndReceive",
        broker.namesrv,
        f"SendAndReceive-{serialize_type}",
        COUNT,
        properties={"rocketmq.serialize.type": serialize_type},
    )
    print(f"\n{broker.name} {serialize_type}: {sent}\n  {pushed}\n  {pulled}\n  {places}")

    assert sent == {"sent": KINDS * COUNT, "answered": (KINDS - 1) * COUNT, "failed": []}
    of_tags_a_and_b = KINDS * sum(number % 3 != 2 for number in range(COUNT))
    assert pushed == each_once("push", of_tags_a_and_b)
    assert pulled == each_once("litePull", KINDS * COUNT)
    assert places["misplaced"] == []
    assert len(places["queues"]) == QUEUES
    assert places["lastOffsets"] == {queue: length - 1 for queue, length in places["queues"].items()}


def test_a_message_that_failed_comes_again_from_the_retry_topic(broker: Peer, run_java: Run) -> None:
    first, second, strange = run_java("Retry", broker.namesrv, "Retry", 200)
    print(f"\n{broker.name}: {first}\n  {second}\n  {strange}")

    assert first == each_once("first try", 200)
    assert second == each_once("second try", 200)
    assert strange == {"strange": {}}


def test_orderly_consumers_share_the_queues_and_keep_their_order(broker: Peer, run_java: Run) -> None:
    run_java("CreateTopic", broker.namesrv, broker.broker, QUEUES, "Orderly")

    received, order = run_java("Orderly", broker.namesrv, "Orderly", 2000)
    print(f"\n{broker.name}: {received}\n  {order}")

    assert received == each_once("orderly", 2000)
    assert order == {"shared": True, "queues": QUEUES, "disordered": []}
