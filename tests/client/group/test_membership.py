"""What a member does when a broker asks it; what it tells brokers is in ``test_membership_end_to_end``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.consuming import Basket
from tests.shop import QUEUE, Shop, shop

from cometmq.client.consumer.consumption import Consumption
from cometmq.client.group.membership import Membership
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.stats import QueueOffsets
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command


@asynccontextmanager
async def at_work(root: Path) -> AsyncIterator[tuple[Shop, Membership, Basket]]:
    """Provide a member that is handling the messages 0 and 1."""
    async with shop(root) as here:
        basket = Basket()
        consumer = here.consumer()
        consumer.on("Orders")(basket.put)
        await here.send(b"0", b"1")
        async with consumer:
            await basket.has(2)
            assert isinstance(consumer._running, Consumption)
            yield here, consumer._running._member, basket


async def test_an_operator_can_reset_offsets(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (here, member, basket):
        offsets = QueueOffsets({QUEUE: 0, QUEUE._replace(queue_id=7): 0})
        reset = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, body=encode(offsets))
        member._on_request(await member.connections.connect(here.live.broker), reset)
        assert await basket.has(4) == [b"0", b"1", b"0", b"1"]


async def test_what_a_broker_may_have_lost_with_its_connection_is_committed_again(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (here, member, _):
        await here.has_committed(2)
        await here.requests.commit(here.queue, 1)  # as a broker that was killed has saved it
        (await member.connections.connect(here.live.broker)).abort("the broker was killed")
        await here.has_committed(2)
