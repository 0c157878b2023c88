"""A client of RocketMQ's controllers, for one broker: its questions, and who leads them.

All questions but heartbeats go to the leader. When that is lost, or no longer leads, the others are asked for
the new one, and the question is sent there once more.

Source: RocketMQ ``broker/out/BrokerOuterAPI.java``, ``broker/controller/ReplicasManager.java``.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from cometmq.errors import CometMQError, NetworkError, RemoteError
from cometmq.logs import get_logger
from cometmq.net.address import parse_address
from cometmq.net.client import Connections
from cometmq.replication.controller.identity import BrokerSet, IdApplication
from cometmq.replication.controller.in_sync_set import Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.wire import headers as h
from cometmq.wire.bodies import decode, encode
from cometmq.wire.bodies.controller import ElectedMembers, SyncStateSet
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.controller_requests import TO_CONTROLLERS
from cometmq.wire.frame import Command

TIMEOUT_MS: Final = 3_000

WITHOUT_MASTER: Final = frozenset(
    (ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE)
)
"""The answers to an election that has no winner."""
MAY_BE_DONE: Final = frozenset(
    (
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,  # also for a set that is the present one
        ResponseCode.CONTROLLER_NOT_LEADER,
        ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR,
    )
)
"""The refusals of another sync state set after which an earlier request may have been, or be, carried out."""
UNREGISTERED: Final = frozenset(
    (
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    )
)
"""The answers about a broker that the controller does not know."""

_log = get_logger(__name__)


class ControllerError(RemoteError):
    """A controller refused a request; the text names the code."""

    def __str__(self) -> str:
        try:
            name = ResponseCode(self.code).name
        except ValueError:
            name = str(self.code)
        return f"{name}: {self.remark}" if self.remark else name


class ControllerClient:
    """The controllers, as one broker asks them.

    Args:
        addresses: of all controllers, ``host:port``.
        members: the broker's set.
        connections: used for all requests; heartbeats must come over connections that stay open.
        now_ms: returns the wall clock's time, ms since the epoch.

    Raises:
        SettingsError: an address is not one.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        members: BrokerSet,
        connections: Connections,
        now_ms: Callable[[], int],
    ) -> None:
        for address in addresses:
            parse_address(address)
        self.addresses = tuple(addresses)
        self.leader: str | None = None
        self._members = members
        self._connections = connections
        self._now_ms = now_ms

    async def find_leader(self) -> str:
        """Ask all controllers for their leader, and return its address.

        Raises:
            NetworkError: no controller answers, or those that do have no leader; the text has what each said.
        """
        self.leader = None
        answers = await asyncio.gather(*map(self._ask_leader, self.addresses))
        leaders = [answer for answer in answers if isinstance(answer, str)]
        if not leaders:
            raise NetworkError(
                "no leader among the controllers (controllerAddr): "
                + "; ".join(f"{address}: {why}" for address, why in zip(self.addresses, answers, strict=True))
            )
        # While the lead changes, an old leader may still name itself: most know better.
        self.leader = max(leaders, key=leaders.count)
        return self.leader

    async def next_id(self) -> int:
        """Return an id that is free in the set."""
        answer = await self._ask(
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, h.NextBrokerIdHeader(*self._members)
        )
        return h.parse(h.NextBrokerIdResponseHeader, answer.ext_fields).next_broker_id

    async def apply(self, application: IdApplication) -> None:
        """Apply for an id. Raises ControllerError (CONTROLLER_BROKER_ID_INVALID: another broker has it)."""
        header = h.ApplyBrokerIdHeader(*self._members, application.broker_id, application.check_code)
        await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, header)

    async def register(self, broker_id: int, address: str) -> MasterNews:
        """Register the broker with its address; return the master, if one lives."""
        header = h.RegisterAtControllerHeader(*self._members, broker_id, address, self._now_ms())
        answer = await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, header)
        return _news(answer, _sync_state_set(answer))

    async def elect(self, broker_id: int) -> MasterNews:
        """Ask for an election; return the master, the one that lives already, or that there is none."""
        header = h.ElectMasterHeader(*self._members, broker_id, self._now_ms())
        try:
            answer = await self._ask(
                RequestCode.CONTROLLER_ELECT_MASTER, header, ResponseCode.CONTROLLER_MASTER_STILL_EXIST
            )
        except ControllerError as error:
            if error.code in WITHOUT_MASTER:
                return MasterNews()
            raise
        body = decode(ElectedMembers, answer.body) if answer.body else ElectedMembers()
        return _news(answer, SyncStateSet(body.in_sync))

    async def replicas(self) -> MasterNews:
        """Return the master and the sync state set."""
        header = h.BrokerNameHeader(self._members.broker_name)
        answer = await self._ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
        return _news(answer, _sync_state_set(answer))

    async def alter_set(self, master_id: int, master_epoch: int, proposal: Proposal) -> SyncStateSet:
        """Ask for another sync state set, as the master; return the new one.

        Raises:
            ControllerError: it is refused: MAY_BE_DONE has the codes after which that is no answer to it.
            NetworkError: there was no answer; it may have been carried out.
        """
        header = h.AlterSyncStateSetHeader(self._members.broker_name, master_id, master_epoch, self._now_ms())
        body = encode(SyncStateSet(*proposal))
        code = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
        answer = await self._ask(code, header, body=body, repeats=False)
        return _sync_state_set(answer)

    async def send_heartbeats(self, header: h.BrokerHeartbeatHeader) -> list[str]:
        """Send a heartbeat to each controller, one-way; return the addresses of those it could be sent to."""
        sent = await asyncio.gather(*(self._send_heartbeat(address, header) for address in self.addresses))
        return [address for address, is_sent in zip(self.addresses, sent, strict=True) if is_sent]

    async def _send_heartbeat(self, address: str, header: h.BrokerHeartbeatHeader) -> bool:
        command = Command(RequestCode.BROKER_HEARTBEAT, ext_fields=h.fields(header))
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await self._connections.oneway(address, command)
        except (NetworkError, TimeoutError) as error:
            _log.debug("controller %s: no heartbeat was sent: %s", address, error)
            return False
        return True

    async def _ask(
        self,
        code: RequestCode,
        header: h.Header,
        *accepted: ResponseCode,
        body: bytes = b"",
        repeats: bool = True,
    ) -> Command:
        """Send a request to the leader, once more if another one leads; return the response.

        Args:
            accepted: codes of responses besides success.
            repeats: whether to send it again, too, if it may have been carried out.

        Raises ControllerError for a code that is neither success nor accepted, NetworkError.
        """
        assert isinstance(header, TO_CONTROLLERS[code].header), header
        was_known = self.leader is not None
        try:
            return await self._ask_once(code, header, accepted, body)
        except NetworkError:
            self.leader = None
            if not (was_known and repeats):
                raise
        except ControllerError as error:
            if error.code != ResponseCode.CONTROLLER_NOT_LEADER:
                raise
            self.leader = None
        return await self._ask_once(code, header, accepted, body)

    async def _ask_once(
        self, code: RequestCode, header: h.Header, accepted: Sequence[ResponseCode], body: bytes
    ) -> Command:
        leader = self.leader or await self.find_leader()
        command = Command(code, ext_fields=h.fields(header), body=body)
        answer = await self._connections.request(leader, command, TIMEOUT_MS)
        if answer.code not in (ResponseCode.SUCCESS, *accepted):
            raise ControllerError(answer.code, answer.remark or "")
        return answer

    async def _ask_leader(self, address: str) -> str | CometMQError:
        """Return the leader's address by the word of one controller, or why it says none."""
        command = Command(RequestCode.CONTROLLER_GET_METADATA_INFO, ext_fields=h.fields(h.NoFields()))
        try:
            answer = await self._connections.request(address, command, TIMEOUT_MS)
            if answer.code != ResponseCode.SUCCESS:
                return ControllerError(answer.code, answer.remark or "")
            leader = h.parse(h.ControllerMetadataHeader, answer.ext_fields).leader_address
        except CometMQError as error:
            return error
        return leader or NetworkError("it knows no leader")


def _news(answer: Command, found: SyncStateSet) -> MasterNews:
    header = h.parse(h.MasterHeader, answer.ext_fields)
    if header.broker_id is None or not header.address:
        return MasterNews(epoch=header.epoch or 0)
    set_epoch = found.set_epoch if header.set_epoch is None else header.set_epoch
    return MasterNews(header.broker_id, header.address, header.epoch or 0, found.members, set_epoch)


def _sync_state_set(answer: Command) -> SyncStateSet:
    return decode(SyncStateSet, answer.body) if answer.body else SyncStateSet()
