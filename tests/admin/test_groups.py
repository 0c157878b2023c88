from pathlib import Path

import pytest
from tests.consuming import Shares
from tests.live import BROKER, serving
from tests.shop import shop

from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import IllegalName, NotFound
from cometmq.wire.bodies.group import GroupConfig


async def test_a_group_is_made_changed_shown_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, ClusterAdmin(live.name_server) as cluster:
        assert await groups.names(cluster) == []
        assert await groups.create(cluster, GroupConfig("billing")) == [BROKER]
        await groups.create(cluster, GroupConfig("billing", retry_max_times=3))
        assert await groups.names(cluster) == ["billing"]
        found = await groups.show(cluster, "billing")
        assert found.config is not None and found.config.retry_max_times == 3
        assert (found.members, found.subscriptions, found.model) == ([], [], "")
        with pytest.raises(NotFound, match=r"no group 'biling': .* 1 groups, nearest 'billing'"):
            await groups.show(cluster, "biling")
        assert await groups.delete(cluster, "billing") == [BROKER]
        with pytest.raises(NotFound, match="cometmq group create billing"):
            await groups.delete(cluster, "billing")
        with pytest.raises(IllegalName):
            await groups.create(cluster, GroupConfig("a b"))


async def test_the_members_are_told_with_what_they_want_and_have(tmp_path: Path) -> None:
    async with shop(tmp_path, queues=2) as here, ClusterAdmin(here.live.name_server) as cluster:
        shares = Shares()
        consumer = here.consumer(on_rebalance=shares.of("one"))
        consumer.subscribe("Orders", print, "paid")
        async with consumer:
            await shares.are(one=2)
            found = await groups.show(cluster, "readers")
            owners = await groups.owners(cluster, "readers")
            with pytest.raises(NotFound, match=f"no member 'x': its members are {consumer.client_id}"):
                await groups.running(cluster, "readers", "x")
        (member,) = found.members
        assert (member.client_id, member.language, member.brokers) == (
            consumer.client_id,
            "PYTHON",
            [BROKER],
        )
        assert ("Orders", "paid", "TAG") in found.subscriptions
        assert found.model == "CLUSTERING"
        assert {queue: owner for queue, owner in owners.items() if queue[0] == "Orders"} == {
            ("Orders", BROKER, 0): consumer.client_id,
            ("Orders", BROKER, 1): consumer.client_id,
        }
        with pytest.raises(NotFound, match="no members now"):
            await groups.running(cluster, "readers", consumer.client_id)
