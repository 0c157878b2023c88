"""Routers: subscribers and publishers that are declared apart from the broker that includes them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, Unpack

from fast_depends.dependencies import Dependant
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.middlewares import AckPolicy

from cometmq.faststream.config import RocketMQBrokerConfig, SubscriberOptions, check_names
from cometmq.faststream.message import Delivery
from cometmq.faststream.publisher import PublisherOptions
from cometmq.faststream.registrator import RocketMQRegistrator


class RouterOptions(TypedDict, total=False):
    """What all subscribers and publishers of a router have."""

    dependencies: Sequence[Dependant]
    middlewares: Sequence[BrokerMiddleware[Any, Any]]
    parser: CustomCallable | None
    decoder: CustomCallable | None
    ack_policy: AckPolicy
    include_in_schema: bool | None


class RoutePublisher(ArgsContainer):
    """A publisher of a :class:`RocketMQRoute`; the options are those of ``broker.publisher``."""

    def __init__(self, topic: str, **options: Unpack[PublisherOptions]) -> None:
        super().__init__(topic, **options)


class RocketMQRoute(SubscriberRoute):
    """A subscriber with its handler, for a router; the options are those of ``broker.subscriber``."""

    def __init__(
        self,
        call: Callable[..., Any],
        topic: str,
        *,
        publishers: Iterable[RoutePublisher] = (),
        **options: Unpack[SubscriberOptions],
    ) -> None:
        super().__init__(call, topic, publishers=publishers, **options)


class RocketMQRouter(RocketMQRegistrator, BrokerRouter[Delivery, RocketMQBrokerConfig]):
    """Declares subscribers and publishers for a broker that includes it.

    Args:
        prefix: is put before their topics.
        handlers: subscribers that are declared with it.
        routers: further routers that it includes.
    """

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[RocketMQRoute] = (),
        *,
        routers: Iterable[RocketMQRegistrator] = (),
        **options: Unpack[RouterOptions],
    ) -> None:
        check_names(options, RouterOptions, "a router")
        own = {
            name if name in {"ack_policy", "include_in_schema"} else f"broker_{name}": value
            for name, value in options.items()
        }
        config = RocketMQBrokerConfig(prefix=prefix, **own)  # type: ignore[arg-type] # of a TypedDict
        super().__init__(handlers=handlers, config=config, routers=routers)
