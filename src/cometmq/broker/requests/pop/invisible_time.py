"""CHANGE_MESSAGE_INVISIBLETIME: change when a popped message becomes visible again: later, or sooner.

The message gets a check point of its own, and is acknowledged in the one that it had. Both are stored
together. So a handle serves once, and not after its time: by then the message comes again. (RocketMQ accepts
any handle, and delivers the message once for each.) A message popped in order has no check point: its
new time counts for its queue (``in_order.py``).
(RocketMQ: ChangeInvisibleTimeProcessor.java.)
"""

from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused, code_of
from cometmq.broker.requests.pop.checks import PopChecks
from cometmq.broker.requests.pop.disk_answers import DiskAnswers
from cometmq.broker.requests.pop.in_order import OrderedPops
from cometmq.broker.state.pop.handles import HandlePoint, Handles, illegal_offset, none_waits, point_of
from cometmq.broker.timed.revive_log import ReviveLog
from cometmq.errors import CometMQError
from cometmq.format.pop.check_point import CheckPoint
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt
from cometmq.net.server import Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import ChangeInvisibleHeader, ChangeInvisibleResponseHeader, fields
from cometmq.wire.template import NumbersTemplate

SOON_MS: Final = 1_000
"""A handle that is less than this ahead of the clock got its time from an earlier change."""

_CHANGED: Final = NumbersTemplate(None, ChangeInvisibleResponseHeader.__struct_encode_fields__)
"""The response to a change."""


class InvisibleTimes:
    """Changes when popped messages become visible again.

    Args:
        broker_name: the name of this broker, for new check points.
    """

    def __init__(
        self,
        log: ReviveLog,
        ordered: OrderedPops,
        handles: Handles,
        checks: PopChecks,
        answers: DiskAnswers,
        *,
        broker_name: str,
    ) -> None:
        self._log = log
        self._ordered = ordered
        self._handles = handles
        self._checks = checks
        self._answers = answers
        self._broker_name = broker_name

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.handle}

    def handle(self, session: Session, command: Command, header: ChangeInvisibleHeader) -> Command | None:
        """CHANGE_MESSAGE_INVISIBLETIME; a refusal has a header too, which clients read."""
        answer: Command | bytes
        try:
            receipt = self._check(header)
            if self._handles.is_in_order(receipt.revive_queue_id):
                return self._change_in_order(command, header, receipt)
            now_ms = self._log.now_ms()
            point = point_of(receipt, header.topic, header.consumer_group, header.queue_id)
            self._check_waits(point, header.offset, now_ms)
            if 0 <= receipt.pop_time_ms - now_ms < SOON_MS:
                now_ms = receipt.pop_time_ms + 1  # else the new check point could be named like the old one
            self._store(header, receipt, point, now_ms)
        except CometMQError as error:
            refusal = fields(ChangeInvisibleResponseHeader(0, 0, 0))
            answer = response(command, code_of(error), str(error), refusal)
        else:
            changed = now_ms, header.invisible_time, receipt.revive_queue_id
            answer = _CHANGED.encode(command, changed, 0)
        self._answers.send(session, command, answer)
        return None

    def _change_in_order(
        self, command: Command, header: ChangeInvisibleHeader, receipt: ReceiptHandle
    ) -> Command:
        """Change when a message that was popped in order unblocks its queue; its handle stays valid."""
        invisible_ms = self._ordered.hide(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.offset,
            pop_time_ms=receipt.pop_time_ms,
            invisible_ms=header.invisible_time,
        )
        if invisible_ms is None:
            raise none_waits(header.topic, header.queue_id)
        changed = ChangeInvisibleResponseHeader(receipt.pop_time_ms, invisible_ms, receipt.revive_queue_id)
        return response(command, ext_fields=fields(changed))

    def _check(self, header: ChangeInvisibleHeader) -> ReceiptHandle:
        """Return the checked handle. Raises Refused, FormatError."""
        topic, queue_id, offset = header.topic, header.queue_id, header.offset
        ends = self._handles.ends_of(topic, queue_id)
        if not ends.low <= offset < ends.high:
            raise illegal_offset(topic, queue_id, offset, ends)
        receipt = parse_receipt(header.extra_info)
        revive_id = receipt.revive_queue_id
        if not (self._handles.has_revive_queue(revive_id) or self._handles.is_in_order(revive_id)):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the handle {header.extra_info[:200]!r} is of revive queue {revive_id}, which "
                "is not revived here: see reviveQueueNum",
            )
        self._checks.check_invisible_time(header.invisible_time)
        return receipt

    def _check_waits(self, point: HandlePoint, offset: int, now_ms: int) -> None:
        """Check that a message is neither acknowledged nor about to come again. Raises Refused."""
        left = self._log.settled.left(point)
        if point.revive_time_ms <= now_ms or (left is not None and offset not in left):
            raise none_waits(point.key.topic, point.key.queue_id)

    def _store(
        self, header: ChangeInvisibleHeader, receipt: ReceiptHandle, point: HandlePoint, now_ms: int
    ) -> None:
        """Store the new check point, and the acknowledgement in the old one. Raises Refused."""
        topic, group, queue_id, offset = header.topic, header.consumer_group, header.queue_id, header.offset
        check_point = CheckPoint(
            topic,
            group,
            queue_id,
            offset,
            pop_time_ms=now_ms,
            invisible_ms=header.invisible_time,
            distances=(0,),
            broker_name=self._broker_name,
            is_suspended=header.suspend,
        )
        try:
            self._log.append(
                [
                    self._log.check_point(check_point, receipt.revive_queue_id),
                    self._log.ack(point, (offset,)),
                ]
            )
        except CometMQError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the invisible time is not changed: {error}") from error
