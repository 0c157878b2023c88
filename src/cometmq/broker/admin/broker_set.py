"""The requests to a broker about its set: the controller's notices, and which epochs its log has.

(RocketMQ: AdminBrokerProcessor.java, notifyBrokerRoleChanged and getBrokerEpochCache.)
"""

from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.settings_by_subject import IdentitySettings
from cometmq.net.session import Session
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.epochs import OFFSET_MAX
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import encode
from cometmq.wire.bodies.controller import EpochsOfBroker, EpochSpan
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields
from cometmq.wire.headers.controller import MasterHeader

NO_CONTROLLER: Final = "this broker has no controller (enableControllerMode)"


class SetRequests:
    """Answers requests about a broker's set.

    Args:
        membership: the broker's place in it; None without a controller.
    """

    def __init__(
        self, membership: SetMembership | None, store: MessageStore, identity: IdentitySettings
    ) -> None:
        self._membership = membership
        self._store = store
        self._identity = identity

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self.take_notice,
            RequestCode.GET_BROKER_EPOCH_CACHE: self.answer_epochs,
        }

    def take_notice(self, _session: Session, command: Command, _header: MasterHeader) -> Command:
        """NOTIFY_BROKER_ROLE_CHANGED: the controller has elected a master, of whom it is asked.

        Whoever reaches the port can send a notice, so nothing that it says is believed.
        """
        if self._membership is None:
            return response(command, ResponseCode.SYSTEM_ERROR, NO_CONTROLLER)
        self._membership.overseer.notified()
        return response(command)

    def answer_epochs(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """GET_BROKER_EPOCH_CACHE: the epochs of the log, the last one without an end."""
        if self._membership is None:
            return response(command, ResponseCode.SYSTEM_ERROR, NO_CONTROLLER)
        identity, epochs = self._identity, self._membership.epochs.epochs
        spans = [
            EpochSpan(entry.epoch, entry.start_offset, epochs.end_of(entry.epoch, OFFSET_MAX))
            for entry in epochs.entries
        ]
        own = identity.broker_cluster_name, identity.broker_name, identity.broker_id
        return response(command, body=encode(EpochsOfBroker(*own, spans, self._store.written_offset)))
