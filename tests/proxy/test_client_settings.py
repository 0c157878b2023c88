from google.protobuf.duration_pb2 import Duration

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.client_settings import merged_settings
from cometmq.wire.bodies.group import GroupConfig


def test_a_producer_gets_its_limits() -> None:
    settings = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(max_body_size=1))
    merged = merged_settings(settings, None)
    assert merged.client_type == pb.PRODUCER and merged.publishing.max_body_size == 4 * 1024 * 1024
    backoff = merged.backoff_policy.exponential_backoff
    assert backoff.initial == Duration(nanos=10_000_000) and backoff.max == Duration(seconds=1)
    assert settings.publishing.max_body_size == 1


def test_a_consumer_gets_what_its_group_says() -> None:
    settings = pb.Settings(subscription=pb.Subscription(group=pb.Resource(name="G")))
    group = GroupConfig(group="G", retry_max_times=2, consume_message_orderly=True)
    merged = merged_settings(settings, group)
    assert merged.subscription.fifo and merged.subscription.receive_batch_size == 32
    assert merged.backoff_policy.max_attempts == 3
    delays = merged.backoff_policy.customized_backoff.next
    assert [delay.seconds for delay in delays][:5] == [1, 5, 10, 30, 60]
    assert delays[-1].seconds == 7200 and len(delays) == 18


def test_a_groups_own_policy_counts() -> None:
    settings = pb.Settings(subscription=pb.Subscription())
    growing = GroupConfig(
        group="G",
        retry_policy={"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1500, "max": 9000}},
    )
    backoff = merged_settings(settings, growing).backoff_policy.exponential_backoff
    assert backoff.initial == Duration(seconds=1, nanos=500_000_000) and backoff.max == Duration(seconds=9)
    assert backoff.multiplier == 2
    listed = GroupConfig(
        group="G", retry_policy={"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2000]}}
    )
    customized = merged_settings(settings, listed).backoff_policy.customized_backoff
    assert [delay.seconds for delay in customized.next] == [1, 2]
