"""What brokers and routers have in common: subscribers and publishers are declared with them."""

from typing import Any, Unpack, cast

from faststream._internal.broker.registrator import Registrator

from cometmq.faststream.config import RocketMQBrokerConfig, SubscriberOptions
from cometmq.faststream.message import Delivery
from cometmq.faststream.publisher import PublisherOptions, RocketMQPublisher, new_publisher
from cometmq.faststream.subscriber import RocketMQSubscriber, new_subscriber


class RocketMQRegistrator(Registrator[Delivery, RocketMQBrokerConfig]):
    """Declares subscribers and publishers."""

    def subscriber(  # type: ignore[override] # each broker has options of its own
        self, topic: str, **options: Unpack[SubscriberOptions]
    ) -> RocketMQSubscriber:
        """Declare a subscriber, to decorate handlers with: see ``SubscriberOptions``.

        Raises TypeError for an unknown option.
        """
        subscriber = new_subscriber(cast("RocketMQBrokerConfig", self.config), topic, options)
        super().subscriber(subscriber, persistent=options.get("persistent", True))
        return subscriber.add_call(
            parser_=options.get("parser") or self._parser,
            decoder_=options.get("decoder") or self._decoder,
            dependencies_=options.get("dependencies", ()),
            codec_=options.get("codec"),
        )

    def publisher(  # type: ignore[override] # each broker has options of its own
        self, topic: str, **options: Unpack[PublisherOptions]
    ) -> RocketMQPublisher:
        """Declare a publisher, to decorate handlers with or to call: see ``PublisherOptions``.

        Raises TypeError for an unknown option.
        """
        publisher = new_publisher(cast("RocketMQBrokerConfig", self.config), topic, options)
        super().publisher(publisher, persistent=options.get("persistent", True))
        return publisher

    def include_router(self, router: "RocketMQRegistrator", **options: Any) -> None:  # type: ignore[override] # of our own
        """Include a router, with a prefix of its topics if one is given.

        Raises TypeError if it is another broker's.
        """
        if not isinstance(router, RocketMQRegistrator):
            raise TypeError(f"{type(router).__name__} is not a router of RocketMQ: use RocketMQRouter")
        super().include_router(router, **options)
