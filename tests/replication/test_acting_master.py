"""A slave in the place of its lost master, for readers: by the broker, the name server and a consumer."""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.replication.conftest import NAME, acked, name_server, running, slave, until

from cometmq import Consumer, Producer, Start, StoredMessage
from cometmq.admin.topics import TopicAdmin
from cometmq.broker.state.offsets import key_of
from cometmq.errors import CometMQError
from cometmq.message import Message

TOPIC: Final = "Orders"
COUNT: Final = 40
ACTS: Final[dict[str, Any]] = {"enable_slave_acting_master": True, "slave_read_enable": True}


async def test_ordered_consumers_go_on_at_an_acting_master_and_nobody_sends_to_it(tmp_path: Path) -> None:
    async with (
        name_server(acting_masters=True) as names,
        slave(tmp_path / "s", names, **ACTS) as follower,
    ):
        async with (
            running(tmp_path / "m", names, **ACTS) as master,
            TopicAdmin(names) as admin,
            Producer(names) as producer,
        ):
            await admin.create(TOPIC, queues=2)
            for number in range(COUNT):
                await producer.send(Message(TOPIC, b"%d" % number, sharding_key="one"))
            await until(lambda: acked(master) == master.store.written_offset)
            await until(lambda: follower.parts.topics.find(TOPIC) is not None)
        async with TopicAdmin(names) as admin:
            route = await admin.route(TOPIC)
            assert route.addresses == {NAME: {0: follower.address}}
            with pytest.raises(CometMQError):
                async with Producer(names) as producer:
                    await producer.send(Message(TOPIC, b"refused"))
            got: list[bytes] = []
            consumer = Consumer(names, group="readers", start=Start.FIRST)

            @consumer.on(TOPIC, ordered=True)
            async def take(message: StoredMessage) -> None:
                got.append(message.body)

            async with consumer:
                await until(lambda: len(got) >= COUNT)
            assert got == [b"%d" % number for number in range(COUNT)]
            committed = follower.parts.offsets.queues_of(key_of("readers", TOPIC))
            assert sum(committed.values()) == COUNT
