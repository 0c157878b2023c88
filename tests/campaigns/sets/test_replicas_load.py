"""The load that the campaign puts on a pair's master."""

import asyncio
from pathlib import Path
from random import Random

from tests.campaigns.sets.replicas_comparison import numbers_in
from tests.campaigns.sets.replicas_load import TOPICS, Load
from tests.live import serving

from cometmq.admin.topics import TopicAdmin

ALL = 1 << 40


async def test_it_sends_up_to_its_limit_and_knows_what_is_stored(tmp_path: Path) -> None:
    load = Load(Random(1))
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin, asyncio.TaskGroup() as tasks:
        for topic in TOPICS:
            await admin.create(topic, queues=2)
        sending = tasks.create_task(load.run(live.name_server))
        for limit in (100_000, 300_000):
            load.allow(limit)
            await load.reach(limit)
        assert not sending.done()
        load.end()
    assert load.failed == 0
    assert load.sent_bytes < 1_500_000, "no more than what was under way at the limit"
    assert load.acknowledged == numbers_in(tmp_path, ALL)
