"""Sends that are refused because the broker cannot keep up: SYSTEM_BUSY, so that clients retry.

A peer that sends too much is slowed down first, by leaving its bytes unread (``net/turn.py``). A send is
refused only if it has waited long all the same, or would:

==================================== ===============================================================
the remark begins with               when
==================================== ===============================================================
``[TIMEOUT_CLEAN_QUEUE]broker busy`` it has waited to be handled for ``waitTimeMillsInSendQueue``
``[PCBUSY_CLEAN_QUEUE]broker busy``  it came while an append took ``osPageCacheBusyTimeOutMills``
``[PC_SYNCHRONIZED]broker busy``     the same, without ``brokerFastFailureEnable``
``[OVERLOAD]system busy``            ``sendThreadPoolQueueCapacity`` sends wait to be safe already
==================================== ===============================================================

Nothing of a refused send is stored.

Source: RocketMQ ``broker/latency/BrokerFastFailure.java``, ``remoting/netty/NettyRemotingAbstract.java``,
``store/DefaultMessageStore.java`` (isOSPageCacheBusy).
"""

import asyncio
from typing import Final

from cometmq.broker.safe_sends import SafeSends
from cometmq.broker.settings_by_subject import OverloadSettings
from cometmq.net.server import Session

FLOW_CONTROL: Final = "start flow control for a while"

TURNS_UNTIL_HANDLED: Final = 3
"""Turns of the loop: data that came during an append is read in the next turn, and handled at its end."""


class FastFailure:
    """Decides which sends are refused, and why.

    Without a call, so that it costs usual sends nothing: none is refused, except one that has waited too long
    itself, while ``slow_append_ms`` is 0 and fewer than ``capacity`` sends wait for the disk.

    Args:
        page_cache_busy_ms: as the attribute.

    Attributes:
        capacity: from so many sends that wait for the disk on, more are refused.
        page_cache_busy_ms: an append that takes longer shows that the page cache is busy.
        slow_append_ms: how long an append took that was too slow, until all sends that came meanwhile are
            refused; else 0.
    """

    def __init__(self, settings: OverloadSettings, page_cache_busy_ms: int, safe: SafeSends) -> None:
        self._is_enabled = settings.broker_fast_failure_enable
        self.capacity = settings.send_thread_pool_queue_capacity
        self.page_cache_busy_ms = page_cache_busy_ms
        self._safe = safe
        self.slow_append_ms = 0

    def note_slow_append(self, took_ms: int) -> None:
        """Record an append that was too slow: sends that came meanwhile are refused."""
        self.slow_append_ms = took_ms
        asyncio.get_running_loop().call_soon(self._clear_slow_append, TURNS_UNTIL_HANDLED)

    def refusal(self, session: Session, count: int) -> str | None:
        """Return the remark that refuses a session's next ``count`` sends; None if they are accepted."""
        if self._safe.count >= self.capacity:
            return f"[OVERLOAD]system busy, {FLOW_CONTROL}"
        if self.slow_append_ms and not self._is_enabled:
            return f"[PC_SYNCHRONIZED]broker busy, {FLOW_CONTROL}"
        if self.slow_append_ms:
            return _remark("PCBUSY_CLEAN_QUEUE", self.slow_append_ms, count)
        if session.waited_ms and self._is_enabled:
            return _remark("TIMEOUT_CLEAN_QUEUE", session.waited_ms, count)
        return None

    def _clear_slow_append(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._clear_slow_append, turns - 1)
        else:
            self.slow_append_ms = 0


def _remark(why: str, waited_ms: int, count: int) -> str:
    return f"[{why}]broker busy, {FLOW_CONTROL}, period in queue: {waited_ms}ms, size of queue: {count}"
