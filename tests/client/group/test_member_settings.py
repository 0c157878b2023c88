"""The settings of a member: after a fork its client id is one of the new process."""

import os

import pytest
from tests.client.members import settings_of

from cometmq.client.group.member_settings import MemberSettings


def unnamed(process_id: int) -> MemberSettings:
    return settings_of("127.0.0.1@1#2")._replace(instance=None, process_id=process_id)


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
