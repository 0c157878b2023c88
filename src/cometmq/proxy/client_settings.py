"""The settings of clients: what each says of itself, merged with what the service decides.

Source: RocketMQ ``proxy/grpc/v2/common/GrpcClientSettingsManager.java``.
"""

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration

from cometmq.client.producer.outgoing import BODY_SIZE_MAX
from cometmq.proxy import messaging_pb2 as pb
from cometmq.wire.bodies.group import GroupConfig

SEND_ATTEMPTS: Final = 3
RECEIVE_BATCH: Final = 32
POLLING_S: Final = 20
LITE_SUBSCRIPTIONS: Final = 2_000
LITE_TOPIC_LENGTH: Final = 64
_MINUTE: Final = 60
_DELAYS_S: Final = (
    *(1, 5, 10, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)
"""The delays before the retries of a message, the last one for all later ones."""


def merged_settings(of_client: pb.Settings, group: GroupConfig | None) -> pb.Settings:
    """Return a client's settings with those of the service; ``group`` is that of a consumer."""
    merged = pb.Settings()
    merged.CopyFrom(of_client)
    merged.metric.CopyFrom(pb.Metric(on=False))
    if of_client.HasField("publishing"):
        merged.publishing.max_body_size = BODY_SIZE_MAX
        merged.publishing.validate_message_type = True
        merged.backoff_policy.CopyFrom(_SEND_POLICY)
    if group is not None:
        subscription = merged.subscription
        subscription.fifo = group.consume_message_orderly
        subscription.receive_batch_size = RECEIVE_BATCH
        subscription.long_polling_timeout.CopyFrom(Duration(seconds=POLLING_S))
        subscription.lite_subscription_quota = LITE_SUBSCRIPTIONS
        subscription.max_lite_topic_size = LITE_TOPIC_LENGTH
        merged.backoff_policy.CopyFrom(_retry_policy(group))
    return merged


def _retry_policy(group: GroupConfig) -> pb.RetryPolicy:
    policy = pb.RetryPolicy(max_attempts=group.retry_max_times + 1)
    if group.retry_policy.get("type") == "EXPONENTIAL":
        values = group.retry_policy.get("exponentialRetryPolicy") or {}
        policy.exponential_backoff.CopyFrom(
            pb.ExponentialBackoff(
                initial=_duration(values.get("initial"), 5_000),
                max=_duration(values.get("max"), 7_200_000),
                multiplier=values.get("multiplier") or 2,
            )
        )
    else:
        values = group.retry_policy.get("customizedRetryPolicy") or {}
        delays_ms = values.get("next") or [delay_s * 1000 for delay_s in _DELAYS_S]
        policy.customized_backoff.next.extend(_duration(delay_ms, 0) for delay_ms in delays_ms)
    return policy


def _duration(value_ms: Any, default_ms: int) -> Duration:
    """Return a duration of so many ms; of ``default_ms`` if the value of the group's table is no number."""
    number_ms = value_ms if isinstance(value_ms, int) else default_ms
    return Duration(seconds=number_ms // 1000, nanos=number_ms % 1000 * 1_000_000)


_SEND_POLICY: Final = pb.RetryPolicy(
    max_attempts=SEND_ATTEMPTS,
    exponential_backoff=pb.ExponentialBackoff(
        initial=_duration(10, 0), max=_duration(1_000, 0), multiplier=2
    ),
)
