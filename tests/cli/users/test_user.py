import pytest
from tests.cli.conftest import Run
from tests.live import BROKER, Live


@pytest.mark.usefixtures("secured")
def test_a_user_is_made_listed_changed_and_removed(cometmq: Run) -> None:
    made = cometmq("user", "add", "billing", "--password-stdin", text="hidden\n")
    assert made == (0, f"user billing: normal, on {BROKER}\n", "")
    (lines,) = cometmq("user", "list", "--json").values
    admin = {"user": "admin", "type": "super", "status": "enabled", "brokers": [BROKER]}
    billing = {"user": "billing", "type": "normal", "status": "enabled", "brokers": [BROKER]}
    assert lines == [admin, billing]
    assert cometmq("user", "list", "--filter", "bill", "--json").values == [[billing]]
    assert cometmq("user", "update", "billing", "--disable", "--type", "super").out == (
        f"user billing: changed on {BROKER}\n"
    )
    (lines,) = cometmq("user", "show", "billing", "--json").values
    assert lines == [billing | {"type": "super", "status": "disabled"}]
    (removed,) = cometmq("user", "remove", "billing", "--json").values
    assert removed == {"user": "billing", "removed_from": [BROKER]}
    assert cometmq("user", "show", "billing").failed(3, "no user 'billing'", "cometmq user add billing")


@pytest.mark.usefixtures("secured")
def test_a_password_is_shown_only_where_it_is_asked_for(cometmq: Run) -> None:
    ran = [
        cometmq("user", "add", "billing", "--password-stdin", text="hidden-1\n"),
        cometmq("user", "update", "billing", "--password-stdin", "--json", text="hidden-2"),
        cometmq("user", "show", "billing"),
        cometmq("user", "show", "billing", "--json"),
        cometmq("user", "list"),
    ]
    assert [one.code for one in ran] == [0] * 5
    assert all("hidden" not in one.out + one.err for one in ran)
    out = cometmq("user", "show", "billing", "--reveal").out
    assert "password" in out and "hidden-2" in out and "hidden-1" not in out
    (lines,) = cometmq("user", "show", "billing", "--reveal", "--json").values
    assert lines[0]["password"] == "hidden-2"


@pytest.mark.usefixtures("secured")
def test_a_wrong_wish_is_refused_in_one_line(cometmq: Run) -> None:
    assert cometmq("user", "add", "u").failed(2, "no terminal", "--password-stdin")
    assert cometmq("user", "add", "u", "--password-stdin", text="\n").failed(2, "password is empty")
    assert cometmq("user", "add", "admin", "--password-stdin", text="p").failed(
        1, "The user is existed", BROKER
    )
    assert cometmq("user", "update", "admin").failed(2, "nothing to change", "--enable")
    assert cometmq("user", "update", "u", "--disable").failed(1, "The user is not exist")
    assert cometmq("user", "remove", "admim").failed(3, "nearest 'admin'")
    assert cometmq("user", "add", "u", "--type", "god").failed(2, "--type")


def test_without_credentials_nothing_is_told(
    cometmq: Run, secured: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COMETMQ_ACCESS_KEY")
    monkeypatch.delenv("COMETMQ_SECRET_KEY")
    assert cometmq("user", "list").failed(1, "code 16", "username cannot be null.")
    assert cometmq("user", "list", "--broker", secured.broker).failed(1, "username cannot be null.")


@pytest.mark.usefixtures("live")
def test_a_broker_without_authentication_says_how_to_get_it(cometmq: Run) -> None:
    assert cometmq("user", "list").failed(1, "authenticationEnabled=true", "initAuthenticationUser")


@pytest.mark.usefixtures("secured")
def test_one_broker_can_be_asked_without_a_name_server(
    cometmq: Run, secured: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    (lines,) = cometmq("user", "list", "--broker", secured.broker, "--json").values
    assert [line["brokers"] for line in lines] == [[secured.broker]]
