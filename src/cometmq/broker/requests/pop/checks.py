"""What a pop must satisfy, in RocketMQ's order and with its codes. (RocketMQ: PopMessageProcessor.java.)"""

from typing import Final, NamedTuple

from cometmq.broker.refused import Refused
from cometmq.broker.state.subscriptions import PullFilter, Subscriptions
from cometmq.format.pop.names import POP_COUNT_MAX
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import ResponseCode
from cometmq.wire.headers import PopHeader

LATE_MS: Final = 500
"""How long after its client has given up a pop is still served."""


class CheckedPop(NamedTuple):
    """What a checked pop reads, and the filter of its messages."""

    topic: TopicConfig
    wanted: PullFilter


class PopChecks:
    """Checks pops, and the requests that are like them."""

    def __init__(self, subscriptions: Subscriptions, settings: StoreSettings, broker_name: str) -> None:
        self._subscriptions = subscriptions
        self._broker_name = broker_name
        self._timer_works = settings.timer_wheel_enable
        self._invisible_s_max = settings.timer_max_delay_sec

    def check_pop(self, header: PopHeader, now_ms: int) -> CheckedPop:
        """Check a pop; its group is created if the settings allow that. Raises Refused, IllegalName.

        Args:
            now_ms: ms since the epoch.
        """
        late_ms = now_ms - (header.born_time or now_ms) - header.poll_time
        if late_ms > LATE_MS:
            raise Refused(
                ResponseCode.POLLING_TIMEOUT,
                f"the broker[{self._broker_name}] pop message is timeout too much: the request is late by "
                f"{late_ms} ms",
            )
        self._subscriptions.check_readable()
        if not 1 <= header.max_msg_nums <= POP_COUNT_MAX:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"the broker[{self._broker_name}] pop message's num is {header.max_msg_nums}: ask for 1 to "
                f"{POP_COUNT_MAX}",
            )
        self.check_invisible_time(header.invisible_time)
        return self.check(header.consumer_group, header.topic, header.queue_id, header.exp_type, header.exp)

    def check(
        self,
        group: str,
        topic: str,
        queue_id: int,
        expression_type: str | None = None,
        expression: str | None = None,
    ) -> CheckedPop:
        """Check topic, queue, group and filter of a request that reads by pop. Raises like ``check_pop``."""
        config = self._subscriptions.check_pop(group, topic, queue_id)
        return CheckedPop(config, self._subscriptions.filter_of(expression_type, expression))

    def check_readable(self) -> None:
        """Check that the broker delivers messages. Raises Refused."""
        self._subscriptions.check_readable()

    def check_invisible_time(self, invisible_ms: int) -> None:
        """Check that the timer can hold check points for so long. Raises Refused."""
        if not self._timer_works:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the broker[{self._broker_name}] pop message is forbidden because timerWheelEnable is false",
            )
        if invisible_ms > self._invisible_s_max * 1_000:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime {invisible_ms} ms is too long: at most {self._invisible_s_max} s "
                "are possible (timerMaxDelaySec)",
            )
