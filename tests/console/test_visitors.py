import pytest
from tests.console.conftest import ROOT

from cometmq.admin.topics import TopicAdmin
from cometmq.console import visitors as module
from cometmq.console.settings import ConsoleSettings
from cometmq.console.visitors import IDLE_MS_MAX, Visitor, Visitors
from cometmq.errors import AccessError
from cometmq.testing.embedded_broker import EmbeddedBroker

USER = ROOT.access_key, ROOT.secret_key


async def test_a_user_of_the_cluster_signs_in_and_out(guarded: EmbeddedBroker) -> None:
    now_ms = 0
    settings = ConsoleSettings(guarded.name_server, login=True)
    async with Visitors(settings, lambda: now_ms) as visitors:
        assert await visitors.find("") is None
        visitor = await visitors.sign_in(*USER)
        assert await visitors.find(visitor.token) is visitor and visitor.user == "root"
        assert visitor.cluster is not None and visitor.cluster.credentials == ROOT
        now_ms = IDLE_MS_MAX
        assert await visitors.find(visitor.token) is visitor
        now_ms += IDLE_MS_MAX + 1
        assert await visitors.find(visitor.token) is None, "it was idle for too long"
        again = await visitors.sign_in(*USER)
        assert visitors.knows(again) and not visitors.knows(visitor)
        await visitors.sign_out(again)
        assert not visitors.knows(again)
        assert await visitors.find(again.token) is None


@pytest.mark.parametrize(
    ("user", "secret", "told"),
    [
        ("root", "wrong", "user root cannot sign in: .*check signature failed"),
        ("nobody", "x", "user nobody cannot sign in: "),
        ("", "x", "give the name of a user"),
    ],
)
async def test_others_are_refused(guarded: EmbeddedBroker, user: str, secret: str, told: str) -> None:
    async with Visitors(ConsoleSettings(guarded.name_server, login=True), lambda: 0) as visitors:
        with pytest.raises(AccessError, match=told):
            await visitors.sign_in(user, secret)


async def test_a_login_is_worth_nothing_where_brokers_check_no_signatures(broker: EmbeddedBroker) -> None:
    async with Visitors(ConsoleSettings(broker.name_server, login=True), lambda: 0) as visitors:
        with pytest.raises(AccessError, match="does not check signatures, so --login would admit anyone"):
            await visitors.sign_in("root", "x")


async def test_a_broker_is_asked_once_a_minute_whether_it_refuses_strangers(
    guarded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms, asked = 0, 0

    async def counted(cluster: TopicAdmin, address: str) -> bool:
        nonlocal asked
        asked += 1
        return await answers(cluster, address)

    answers = module._answers_strangers
    monkeypatch.setattr(module, "_answers_strangers", counted)
    async with Visitors(ConsoleSettings(guarded.name_server, login=True), lambda: now_ms) as visitors:
        for at_ms in (0, module.CHECKED_MS - 1, module.CHECKED_MS, module.CHECKED_MS):
            now_ms = at_ms
            await visitors.sign_in(*USER)
    assert asked == 2


async def test_one_too_many_signs_out_the_one_that_is_idle(
    guarded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VISITORS_MAX", 1)
    async with Visitors(ConsoleSettings(guarded.name_server, login=True), lambda: 0) as visitors:
        first, second = await visitors.sign_in(*USER), await visitors.sign_in(*USER)
        assert await visitors.find(first.token) is None
        assert await visitors.find(second.token) is second


async def test_who_signs_in_often_signs_out_nobody_else(
    guarded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VISITORS_MAX", 3)
    monkeypatch.setattr(module, "VISITORS_OF_USER_MAX", 2)
    other = Visitor("other", "", "other", None)
    async with Visitors(ConsoleSettings(guarded.name_server, login=True), lambda: 0) as visitors:
        visitors._add(other)
        mine = [await visitors.sign_in(*USER) for _ in range(4)]
        assert [visitors.knows(one) for one in (other, *mine)] == [True, False, False, True, True]


async def test_a_visitor_signs_out_twice(guarded: EmbeddedBroker) -> None:
    async with Visitors(ConsoleSettings(guarded.name_server, login=True), lambda: 0) as visitors:
        visitor = await visitors.sign_in(*USER)
        for _ in range(2):  # by two requests whose forms have come at the same time
            await visitors.sign_out(visitor)
        assert not visitors.knows(visitor)


async def test_secrets_cannot_be_guessed_quickly(
    guarded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FAILED_MAX", 1)
    now_ms = 0
    async with Visitors(ConsoleSettings(guarded.name_server, login=True), lambda: now_ms) as visitors:
        with pytest.raises(AccessError, match="signature"):
            await visitors.sign_in("root", "wrong")
        with pytest.raises(AccessError, match="1 sign-ins have failed in the last minute: wait"):
            await visitors.sign_in(*USER)
        now_ms = 60_000
        assert (await visitors.sign_in(*USER)).user == "root"
