from collections.abc import Callable

import pytest
from tests.kit.controllers import MEMBERS, OWN, controllers, lead

from cometmq.errors import NetworkError, SettingsError
from cometmq.net.client import Connections
from cometmq.replication.controller.client import ControllerClient, ControllerError
from cometmq.replication.controller.identity import IdApplication
from cometmq.replication.controller.in_sync_set import Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.wire.bodies.controller import SyncStateSet
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import BrokerHeartbeatHeader


async def refusal(call: Callable[[], object]) -> ControllerError:
    with pytest.raises(ControllerError) as raised:
        await call()  # type: ignore[misc]  # any of the client's requests
    return raised.value


async def test_a_broker_gets_an_id_and_is_elected() -> None:
    async with controllers(1) as ([controller], client):
        assert await client.next_id() == 1
        await client.apply(IdApplication(1, "code"))
        assert await client.register(1, OWN) == MasterNews()
        sent = await client.send_heartbeats(BrokerHeartbeatHeader("c", OWN, "broker-x", broker_id=1))
        assert sent == [controller.address]
        await controller.beats.wait()
        elected = MasterNews(1, OWN, 1, frozenset({1}), 1)
        assert await client.elect(1) == elected
        assert await client.elect(1) == elected, "the master lives"
        assert await client.replicas() == elected
        assert await client.register(1, OWN) == elected


async def test_a_set_is_altered_and_a_refusal_names_its_code() -> None:
    async with controllers(1) as ([controller], client):
        for broker_id in (1, 2):
            controller.state.apply(broker_id, str(broker_id))
            controller.state.heartbeat(broker_id)
        await client.register(1, OWN)
        await client.elect(1)
        both = frozenset({1, 2})
        assert await client.alter_set(1, 1, Proposal(both, 1)) == SyncStateSet(both, 2)
        alone = frozenset({1})
        error = await refusal(lambda: client.alter_set(1, 1, Proposal(alone, 1)))
        assert str(error) == "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: refused"
        assert (await refusal(lambda: client.alter_set(2, 1, Proposal(alone, 2)))).code == 2002


async def test_an_id_of_another_broker_and_an_unknown_set_are_refused() -> None:
    async with controllers(1) as (_, client):
        await client.apply(IdApplication(1, "code"))
        error = await refusal(lambda: client.apply(IdApplication(1, "another")))
        assert error.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert (await refusal(client.replicas)).code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


async def test_an_election_without_a_winner_is_no_error() -> None:
    async with controllers(1) as ([controller], client):
        controller.state.apply(1, "code")
        controller.state.masters[1] = 9
        assert await client.elect(1) == MasterNews()


async def test_another_leader_is_found_when_the_old_one_says_that_it_is_none() -> None:
    async with controllers(3) as (found, client):
        assert await client.next_id() == 1
        lead(found, 2)
        assert await client.next_id() == 1
        assert client.leader == found[2].address


async def test_another_leader_is_found_when_the_old_one_is_gone() -> None:
    async with controllers(3) as (found, client):
        assert await client.find_leader() == found[0].address
        await found[0].server.stop()
        lead(found, 1)
        assert await client.next_id() == 1
        assert client.leader == found[1].address


async def test_most_controllers_know_the_leader_better_than_an_old_one() -> None:
    async with controllers(3) as (found, client):
        lead(found, 1)
        found[0].leader = found[0].address
        assert await client.find_leader() == found[1].address


async def test_a_lost_request_for_another_set_is_not_sent_again_as_it_may_be_carried_out() -> None:
    async with controllers(1) as ([controller], client):
        await client.find_leader()
        controller.silent = {
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        }
        with pytest.raises(NetworkError):
            await client.alter_set(1, 1, Proposal(frozenset({1}), 1))
        await client.find_leader()
        assert await client.next_id() == 1, "that is sent again"
        assert controller.codes.count(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET) == 1
        assert controller.codes.count(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID) == 2


async def test_without_a_leader_the_error_has_what_each_controller_said() -> None:
    async with controllers(2) as (found, client):
        found[0].leader = found[1].leader = ""
        await found[1].server.stop()
        with pytest.raises(
            NetworkError, match=r"no leader among the controllers.*it knows no leader; .*refused"
        ):
            await client.find_leader()


async def test_a_heartbeat_reaches_those_that_can_be_reached() -> None:
    async with controllers(2) as (found, client):
        await found[0].server.stop()
        header = BrokerHeartbeatHeader("c", OWN, "broker-x", broker_id=4)
        assert await client.send_heartbeats(header) == [found[1].address]
        await found[1].beats.wait()
        assert found[1].state.alive == {4}


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError):
        ControllerClient(["nowhere"], MEMBERS, Connections(), lambda: 0)
