"""Views of a cluster in which one broker is gone."""

from pathlib import Path

import pytest
from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.kit.brokers import register_a_broker_that_is_gone
from tests.live import BROKER, serving

from cometmq.admin import groups
from cometmq.admin.tolerant import TolerantAdmin, Trouble
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NetworkError, UnreadableAnswer
from cometmq.wire.bodies.group import GroupConfig


async def test_what_the_others_have_is_shown_and_the_trouble_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await groups.create(admin, GroupConfig("billing"))
        gone = await register_a_broker_that_is_gone(admin)
        with pytest.raises(NetworkError):
            await groups.names(admin)
        tolerant = TolerantAdmin(admin)
        assert await groups.names(tolerant) == ["billing"]
        assert (await groups.show(tolerant, "billing")).brokers == [BROKER]
        (trouble,) = tolerant.troubles
        assert trouble == Trouble("broker-gone", gone, trouble.text) and gone in trouble.text


async def test_an_answer_that_cannot_be_read_is_a_trouble_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await groups.create(admin, GroupConfig("billing"))
        async with fuzzed_broker(admin):
            with pytest.raises(UnreadableAnswer, match="answers what cannot be read: "):
                await groups.names(admin)
            tolerant = TolerantAdmin(admin)
            assert await groups.names(tolerant) == ["billing"]
            (trouble,) = tolerant.troubles
            assert trouble.broker_name == NAME and trouble.address in trouble.text
