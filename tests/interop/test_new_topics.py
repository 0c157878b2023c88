"""What a broker has answered for is known to the name server: other clients find the topic at once."""

import pytest
from tests.interop.jvm import Run
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop

COUNT = 100


def test_a_topic_is_known_once_its_first_message_or_its_groups_first_heartbeat_is_answered(
    broker: Peer, run_java: Run
) -> None:
    topics, retry_topics = run_java("NewTopics", broker.namesrv, broker.broker, "New", COUNT)
    assert topics == {"asked": COUNT, "unknown": []}
    assert retry_topics == {"asked": COUNT, "unknown": []}
