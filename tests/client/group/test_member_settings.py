"""The settings of a member: what a new one has, and after a fork a client id of the new process."""

import os
from typing import Any

import pytest
from tests.client.members import settings_of

from cometmq.client.group.member_settings import MemberSettings
from cometmq.errors import CometMQError
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType

FIRST, POP = ConsumeFromWhere.FIRST_OFFSET, ConsumeType.CONSUME_POP


def unnamed(process_id: int) -> MemberSettings:
    return settings_of("127.0.0.1@1#2")._replace(instance=None, process_id=process_id)


def test_a_new_member_is_one_of_this_process_and_commits_only_on_request() -> None:
    settings = MemberSettings.new("a:1;b:2", "readers", None, POP, FIRST, None, 50, 100)
    assert (settings.name_servers, settings.group, settings.start_timeout_ms) == (
        ("a:1", "b:2"),
        "readers",
        50,
    )
    assert settings.of_this_process() is settings
    assert (settings.commit_ms, settings.strategy, settings.offsets_path) == (None, None, None)
    named = MemberSettings.new("a:1", "readers", "one", POP, FIRST, None, None, 100)
    assert named.client_id.endswith("@one")


@pytest.mark.parametrize(
    ("name_servers", "group", "instance", "timeout_ms", "interval_ms"),
    [
        ("", "g", None, None, 100),
        ("a:1", "no group", None, None, 100),
        ("a:1", "g", 0, None, 100),
        ("a:1", "g", None, -1, 100),
        ("a:1", "g", None, None, 99),
    ],
)
def test_a_member_that_cannot_be_is_refused(
    name_servers: str, group: str, instance: Any, timeout_ms: int | None, interval_ms: int
) -> None:
    with pytest.raises(CometMQError):
        MemberSettings.new(name_servers, group, instance, POP, FIRST, None, timeout_ms, interval_ms)


def test_settings_of_the_same_process_stay_as_they_are() -> None:
    settings = unnamed(os.getpid())
    assert settings.of_this_process() is settings


def test_a_forked_member_gets_a_client_id_of_its_own() -> None:
    forked = unnamed(os.getpid() + 1).of_this_process()
    assert forked.client_id.partition("@")[2].startswith(f"{os.getpid()}#")
    assert forked.process_id == os.getpid()
    assert forked.of_this_process() is forked


@pytest.mark.parametrize("instance", ["DEFAULT", "one"])
def test_a_name_that_the_user_chose_stays_after_a_fork(instance: str) -> None:
    settings = unnamed(os.getpid() + 1)._replace(instance=instance)
    assert settings.of_this_process() is settings
