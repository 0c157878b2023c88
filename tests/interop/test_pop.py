"""Pop, by the released Java client: a push consumer in pop mode, and ordered pops that are woken."""

import pytest
from tests.interop.jvm import Run
from tests.interop.peers import BROKER_NAME, Peer
from tests.interop.received import each_once

pytestmark = pytest.mark.interop

COUNT = 120
FAIL_EVERY = 3  # by PopPush.java
ORDERED = 10
INVISIBLE_MS = 120_000  # by PopInOrder.java


def test_a_push_consumer_in_pop_mode_gets_each_message_once_and_again_what_it_failed(
    broker: Peer, run_java: Run
) -> None:
    """Lasts a quarter of a minute: the client asks for ten seconds at least before a message comes again."""
    run_java("CreateTopic", broker.namesrv, broker.broker, 4, "Popped")
    assert run_java("PopPush", broker.namesrv, broker.broker, "Popped", COUNT) == [
        each_once("first try", COUNT),
        each_once("second try", COUNT // FAIL_EVERY),
        {"strange": {}},
    ]


def test_an_acknowledgement_wakes_the_ordered_pop_that_waits_for_the_next_message(
    broker: Peer, run_java: Run
) -> None:
    run_java("CreateTopic", broker.namesrv, broker.broker, 1, "PoppedInOrder")
    (said,) = run_java("PopInOrder", broker.namesrv, BROKER_NAME, broker.broker, "PoppedInOrder", ORDERED)
    assert said["keys"] == [f"ordered-{number}" for number in range(ORDERED)]
    assert said["ms"] < INVISIBLE_MS, "a pop has waited until the message was visible again"
