"""A FastStream broker for RocketMQ: subscribers and publishers, routers, a test broker, AsyncAPI.

::

    broker = RocketMQBroker("127.0.0.1:9876", group="billing")
    app = FastStream(broker)

    @broker.subscriber("orders", tags="paid")
    @broker.publisher("bills")
    async def bill(order: Order) -> Bill: ...

The classes are built on FastStream's internal ones, as those of its own brokers are: hence the narrow
bounds of the extra ``faststream``.

Page: ``docs/internals/clients.md``.
"""

from typing import TYPE_CHECKING, Final

from cometmq import extras, lazy

extras.require("faststream", "cometmq.faststream")

if TYPE_CHECKING:
    from cometmq.faststream.annotations import RocketMQMessage
    from cometmq.faststream.broker import RocketMQBroker
    from cometmq.faststream.command import RocketMQResponse
    from cometmq.faststream.router import RocketMQRoute, RocketMQRouter, RoutePublisher
    from cometmq.faststream.testing import TestRocketMQBroker

__all__ = [
    "RocketMQBroker",
    "RocketMQMessage",
    "RocketMQResponse",
    "RocketMQRoute",
    "RocketMQRouter",
    "RoutePublisher",
    "TestRocketMQBroker",
]

_HOMES: Final = {
    "RocketMQBroker": "cometmq.faststream.broker",
    "RocketMQMessage": "cometmq.faststream.annotations",
    "RocketMQResponse": "cometmq.faststream.command",
    "RocketMQRoute": "cometmq.faststream.router",
    "RocketMQRouter": "cometmq.faststream.router",
    "RoutePublisher": "cometmq.faststream.router",
    "TestRocketMQBroker": "cometmq.faststream.testing",
}

__getattr__ = lazy.importer(__name__, _HOMES)
