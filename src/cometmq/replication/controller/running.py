"""Run a broker's life under a controller: carry out its instructions, and hand their answers back.

Questions to the controller have tasks of their own, so that one without an answer delays no heartbeat.
Changes of the role are carried out one after the other, in the order in which they were decided; heartbeats
go on meanwhile. Notices that come while a role changes may be lost, so the controller is asked after it. If a
change fails, ``run`` ends with its error: a broker whose role is in doubt must not serve.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from cometmq.errors import CometMQError
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.replication.controller.client import MAY_BE_DONE, UNREGISTERED, ControllerClient, ControllerError
from cometmq.replication.controller.identity import IdentityFiles
from cometmq.replication.controller.in_sync_set import InSyncSet, Proposal
from cometmq.replication.controller.life import (
    Apply,
    AskNextId,
    AskReplicas,
    BecomeMaster,
    BecomeSlave,
    BrokerLife,
    DropApplication,
    Elect,
    FindLeader,
    Instruction,
    KeepId,
    MasterNews,
    Register,
    SendHeartbeats,
    SettleSet,
    Unfence,
    WarnOldEpoch,
)
from cometmq.wire.codes import ResponseCode
from cometmq.wire.headers import BrokerHeartbeatHeader

TICK_S: Final = 0.5
RoleChange = BecomeMaster | BecomeSlave | SettleSet | Unfence

_log = get_logger(__name__)


class Roles(Protocol):
    """What a broker does when its role changes, and what it says of itself."""

    async def become_master(self, news: MasterNews, *, stays: bool) -> None:
        """Become the master of an epoch; with ``stays`` it was the master of the epoch before."""
        ...

    async def become_slave(self, news: MasterNews, *, stays: bool) -> None:
        """Follow a master; with ``stays`` it is the one that was followed before."""
        ...

    async def settle_set(self, in_sync: frozenset[int], set_epoch: int) -> None:
        """Replace the sync state set by the controller's."""
        ...

    async def unfence(self) -> None:
        """Register at the name servers, and serve."""
        ...

    def heartbeat(self, broker_id: int) -> BrokerHeartbeatHeader:
        """Return the header of a heartbeat: last epoch, ends of the log."""
        ...


class ControlledBroker:
    """One broker under a controller.

    Args:
        address: where clients reach the broker.
    """

    def __init__(
        self,
        life: BrokerLife,
        client: ControllerClient,
        files: IdentityFiles,
        roles: Roles,
        address: str,
        clock: Clock,
    ) -> None:
        self.life = life
        self._client = client
        self._files = files
        self._roles = roles
        self._address = address
        self._clock = clock
        self._changes: asyncio.Queue[RoleChange] = asyncio.Queue()
        self._group: asyncio.TaskGroup | None = None
        self._problems: set[str] = set()  # logged since a question was answered last

    async def run(self) -> None:
        """Run until it is cancelled. Raises an ExceptionGroup if a change of the role has failed."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._change_roles())
            while True:
                self._carry_out(self.life.tick(self._now()))
                await asyncio.sleep(TICK_S)

    def notified(self) -> None:
        """Handle a notice of another master (NOTIFY_BROKER_ROLE_CHANGED): anybody may send one, so ask."""
        self._carry_out([AskReplicas()])

    async def propose(self, in_sync: InSyncSet, proposal: Proposal) -> None:
        """Ask for another sync state set, and hand the answer to ``in_sync``, which made the proposal."""
        epoch = in_sync.entry.epoch
        try:
            found = await self._client.alter_set(in_sync.own_id, epoch, proposal)
        except ControllerError as error:
            _log.warning("the sync state set %s is refused: %s", sorted(proposal.members), error)
            if error.code in MAY_BE_DONE:
                in_sync.unanswered(self._now())
                self._carry_out([AskReplicas()])
            else:
                in_sync.refused(self._now())
        except CometMQError as error:
            _log.warning("no answer about the sync state set %s: %s", sorted(proposal.members), error)
            in_sync.unanswered(self._now())
        else:
            in_sync.settle(found.members, found.set_epoch, self._now())
            self.life.set_settled(epoch, found.set_epoch)

    def _now(self) -> int:
        return self._clock.monotonic_ms()

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        """Begin to carry out instructions: changes in their order, the others in a task, in theirs."""
        questions: list[Instruction] = []
        for instruction in instructions:
            if isinstance(instruction, RoleChange):
                self._changes.put_nowait(instruction)
            elif isinstance(instruction, WarnOldEpoch):
                self._log_once(
                    f"the controller names a master of epoch {instruction.epoch}, but this log has records "
                    f"of epoch {instruction.log_epoch}: the controller has lost its state, and this broker "
                    "follows no master before a greater epoch"
                )
            else:
                questions.append(instruction)
        if questions and self._group is not None:
            self._group.create_task(self._ask_all(questions))

    async def _change_roles(self) -> None:
        while True:
            match await self._changes.get():
                case BecomeMaster(news, stays):
                    await self._roles.become_master(news, stays=stays)
                    self._carry_out([AskReplicas()])
                case BecomeSlave(news, stays):
                    await self._roles.become_slave(news, stays=stays)
                    self._carry_out([AskReplicas()])
                case SettleSet(in_sync, set_epoch):
                    await self._roles.settle_set(in_sync, set_epoch)
                case Unfence():
                    await self._roles.unfence()

    async def _ask_all(self, questions: Sequence[Instruction]) -> None:
        for question in questions:
            try:
                answer = await self._ask(question)
            except CometMQError as error:
                answer = self._failed(question, error)
            else:
                if not isinstance(question, SendHeartbeats):  # which nobody answers
                    self._problems.clear()
            self._carry_out(answer)

    async def _ask(self, question: Instruction) -> list[Instruction]:
        """Carry out one instruction; return what follows from its answer. Raises CometMQError, OSError."""
        life, client, files = self.life, self._client, self._files
        match question:
            case FindLeader():
                await client.find_leader()
                return life.leader_found(self._now())
            case AskNextId():
                return life.id_offered(await client.next_id(), self._now())
            case Apply(application):
                await asyncio.to_thread(files.save_application, application)
                await client.apply(application)
                return life.id_assigned(application.broker_id, self._now())
            case DropApplication():
                await asyncio.to_thread(files.remove_application)
            case KeepId(broker_id):
                await asyncio.to_thread(files.save_id, broker_id)
            case Register(broker_id):
                return life.news(await client.register(broker_id, self._address), self._now())
            case SendHeartbeats() if life.broker_id is not None:
                await client.send_heartbeats(self._roles.heartbeat(life.broker_id))
            case Elect() if life.broker_id is not None:
                return life.news(await client.elect(life.broker_id), self._now())
            case AskReplicas():
                return life.news(await client.replicas(), self._now())
        return []

    def _failed(self, question: Instruction, error: CometMQError) -> list[Instruction]:
        """Handle a question without an answer, or with a refusal; return what follows."""
        now = self._now()
        code = error.code if isinstance(error, ControllerError) else None
        if isinstance(question, Apply) and code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            return self.life.id_refused(question.application.broker_id, now)
        if code in UNREGISTERED and not isinstance(question, Register):
            return self.life.unregistered(now)
        self._log_once(
            f"controller: a question has failed, and is asked again: {type(question).__name__}: {error}"
        )
        self.life.failed(now)
        return []

    def _log_once(self, problem: str) -> None:
        """Log a warning; the same again is only for debugging, until a question is answered."""
        _log.log(logging.DEBUG if problem in self._problems else logging.WARNING, "%s", problem)
        self._problems.add(problem)
