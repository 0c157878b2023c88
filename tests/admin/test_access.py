"""What operators do with users and acls, on one broker and on several."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.access_settings import ADMIN, SECURED
from tests.live import BROKER, SMALL, serving

from cometmq.access.decision import Permission
from cometmq.admin import access
from cometmq.admin.access import KnownAcl, KnownUser, KnownVerdict
from cometmq.admin.cluster import ClusterAdmin
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.errors import IllegalType, NotFound, RemoteError, SettingsError
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests import Action, Resource

ROOT = KnownUser(UserInfo("admin", "secret-of-admin", "Super", "enable"), [BROKER])
ENTRY = PolicyEntryInfo("Topic:orders*", ["Pub", "Sub"], ["127.0.0.1"], "Allow")
PUB = Permission(Resource.TOPIC, "orders-1", (Action.PUB,))


@asynccontextmanager
async def secured(root: Path) -> AsyncIterator[ClusterAdmin]:
    async with (
        serving(root, **SECURED) as live,
        ClusterAdmin(live.name_server, credentials=ADMIN) as cluster,
    ):
        yield cluster


@asynccontextmanager
async def second_broker(root: Path, cluster: ClusterAdmin) -> AsyncIterator[str]:
    """Run another broker of the cluster; gives its address."""
    settings = BrokerSettings.of(
        broker_name="broker-b",
        listen_port=0,
        namesrv_addr=cluster.name_servers[0],
        store_path_root_dir=str(root),
        **SECURED,
    )
    broker = Broker(settings, StoreSettings(**SMALL), load_kernels=False)
    await broker.start()
    try:
        yield broker.address
    finally:
        await broker.stop()


async def test_a_user_is_made_changed_shown_and_removed(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        assert await access.users(cluster) == [ROOT]
        assert await access.add_user(cluster, UserInfo("u1", "p")) == [BROKER]
        assert await access.update_user(cluster, UserInfo("u1", user_status="disable")) == [BROKER]
        known = [KnownUser(UserInfo("u1", "p", "Normal", "disable"), [BROKER])]
        assert await access.find_user(cluster, "u1") == known
        assert await access.users(cluster) == [ROOT, *known]
        assert await access.users(cluster, "u") == known
        assert await access.remove_user(cluster, "u1") == [BROKER]
        with pytest.raises(NotFound, match=r"no user 'admim': the brokers know 1 users, nearest 'admin'"):
            await access.find_user(cluster, "admim")
        with pytest.raises(NotFound, match="cometmq user add u1"):
            await access.remove_user(cluster, "u1")


async def test_an_acl_is_made_changed_shown_and_removed(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        await access.add_user(cluster, UserInfo("u1", "p"))
        assert await access.find_acl(cluster, "u1") == [] == await access.acls(cluster)
        assert await access.add_entry(cluster, "u1", ENTRY) == [BROKER]
        deny = PolicyEntryInfo("*", ["All"], None, "Deny")
        await access.add_entry(cluster, "u1", deny, policy_type="Default")
        custom, default = PolicyInfo("Custom", [ENTRY]), PolicyInfo("Default", [deny])
        (known,) = await access.find_acl(cluster, "u1")
        assert known == KnownAcl(AclInfo("User:u1", [custom, default]), [BROKER]) and known.user == "u1"
        assert await access.acls(cluster, "u", "orders") == [KnownAcl(AclInfo("User:u1", [custom]), [BROKER])]
        assert await access.acls(cluster, "User") == [], "it is a part of the name"
        assert await access.remove_entry(cluster, "u1", "*", policy_type="Default") == [BROKER]
        assert await access.remove_entry(cluster, "u1") == [BROKER]
        with pytest.raises(RemoteError, match=rf"The acl is not exist\. \[by broker {BROKER}\]"):
            await access.remove_entry(cluster, "u1")


async def test_a_verdict_names_the_entry_that_decides(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        await access.add_user(cluster, UserInfo("u1", "p"))
        refusal = "User:u1 has no permission to access Topic:orders-1 from 127.0.0.1, no matched policies."
        (verdict,) = await access.verdicts(cluster, "u1", PUB, "127.0.0.1")
        assert verdict == KnownVerdict(refusal, None, None, [BROKER])
        await access.add_entry(cluster, "u1", ENTRY)
        (verdict,) = await access.verdicts(cluster, "u1", PUB, "127.0.0.1")
        assert verdict == KnownVerdict(None, "Custom", ENTRY, [BROKER])
        deny = PolicyEntryInfo("Topic:*", ["Pub"], None, "Deny")
        await access.add_entry(cluster, "u1", deny, policy_type="Default")
        (verdict,) = await access.verdicts(cluster, "u1", PUB, "192.0.2.1")
        assert verdict[1:] == ("Default", deny, [BROKER])
        assert verdict.refusal == refusal.replace("127.0.0.1", "192.0.2.1").replace(
            "no matched policies", "the decision is deny"
        )
        (verdict,) = await access.verdicts(cluster, "admin", PUB, "192.0.2.1")
        assert verdict == KnownVerdict(None, None, None, [BROKER])
        (verdict,) = await access.verdicts(cluster, "nobody", PUB, "192.0.2.1")
        assert verdict.refusal == "User:nobody not found."


async def test_what_differs_between_brokers_is_seen_and_one_can_be_changed_alone(tmp_path: Path) -> None:
    async with (
        secured(tmp_path / "a") as cluster,
        second_broker(tmp_path / "b", cluster) as address,
    ):
        both = [BROKER, "broker-b"]
        assert await access.add_user(cluster, UserInfo("u1", "p")) == both
        assert await access.add_entry(cluster, "u1", ENTRY, broker=address) == [address]
        assert [known.brokers for known in await access.users(cluster)] == [both, both]
        assert [known.brokers for known in await access.acls(cluster)] == [["broker-b"]]
        verdicts = await access.verdicts(cluster, "u1", PUB, "127.0.0.1")
        assert [(verdict.refusal is None, verdict.brokers) for verdict in verdicts] == [
            (False, [BROKER]),
            (True, ["broker-b"]),
        ]
        await access.remove_user(cluster, "u1", broker=address)
        await access.add_user(cluster, UserInfo("u1", "other"), broker=address)
        assert [known.brokers for known in await access.find_user(cluster, "u1")] == [[BROKER], ["broker-b"]]
        await access.remove_user(cluster, "u1", broker=address)
        with pytest.raises(RemoteError, match=rf"not exist \[by broker broker-b, changed on {BROKER}\]"):
            await access.update_user(cluster, UserInfo("u1", "p"))


async def test_who_does_not_sign_changes_nothing(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, ClusterAdmin(cluster.name_servers[0]) as stranger:
        with pytest.raises(RemoteError, match=r"username cannot be null\.") as refused:
            await access.users(stranger)
        assert refused.value.code == ResponseCode.NO_PERMISSION
        with pytest.raises(RemoteError, match=r"username cannot be null\."):
            await access.add_user(stranger, UserInfo("evil", "p", "Super"))
        assert await access.users(cluster) == [ROOT]


async def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        with pytest.raises(IllegalType, match="info"):
            await access.add_user(cluster, "u1")  # type: ignore[arg-type]  # on purpose
        with pytest.raises(IllegalType, match="entry"):
            await access.add_entry(cluster, "u1", {})  # type: ignore[arg-type]  # on purpose


async def test_users_are_known_where_a_broker_shows_them(tmp_path: Path) -> None:
    async with secured(tmp_path / "secured") as cluster:
        assert await access.are_known(cluster)
    async with serving(tmp_path / "open") as live, ClusterAdmin(live.name_server) as cluster:
        assert not await access.are_known(cluster)


def test_what_is_written_of_a_permission_is_parsed() -> None:
    assert access.parse_need("Pub", "Topic:orders-1") == PUB
    assert access.parse_source("::1", "--from") == "::1"
    for action, resource, told in (
        ("Pub", "orders", "give one such as Topic:orders"),
        ("Pub", "Topic:o*", "give a single one"),
        ("All", "Topic:o", "give one of Pub"),
    ):
        with pytest.raises(SettingsError, match=told):
            access.parse_need(action, resource)
    with pytest.raises(SettingsError, match="address 'here': give an IP address"):
        access.parse_source("here", "address")
