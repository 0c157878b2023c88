"""A FastStream application: it bills orders that are paid, and answers what a number of buttons costs.

Run it with ``faststream run billing:create_app --factory``; its tests are beside it.
"""

import os
from typing import Annotated

from faststream import Context, Depends, FastStream
from faststream.exceptions import RejectMessage
from pydantic import BaseModel, PositiveInt

from cometmq import Start
from cometmq.faststream import RocketMQBroker, RocketMQMessage, RocketMQResponse, RocketMQRouter

NAME_SERVER = "127.0.0.1:9876"
CENTS = 25


class Order(BaseModel):
    """What somebody has ordered."""

    number: int
    buttons: PositiveInt


class Bill(BaseModel):
    """What they have to pay."""

    order: int
    cents: int


class Prices:
    """What things cost."""

    def of(self, buttons: int) -> int:
        """Return the price of buttons, in cents."""
        return buttons * CENTS


def billed(bills: Annotated[dict[int, Bill], Context()], order: Order) -> Bill | None:
    """Return the bill of an order that came before: each message may come twice."""
    return bills.get(order.number)


router = RocketMQRouter()


@router.subscriber("orders", tags="paid", start=Start.FIRST, max_workers=4, max_reconsume_times=3)
@router.publisher("bills", title="Bills")
async def bill(
    order: Order,
    message: RocketMQMessage,
    bills: Annotated[dict[int, Bill], Context()],
    prices: Annotated[Prices, Depends(Prices)],
    before: Annotated[Bill | None, Depends(billed)],
) -> RocketMQResponse:
    """Bill an order, once; an order of too many buttons becomes a dead letter."""
    if order.buttons > 1_000:
        raise RejectMessage
    bills[order.number] = before or Bill(order=order.number, cents=prices.of(order.buttons))
    return RocketMQResponse(bills[order.number], tags="new", keys=message.stored.keys)


@router.subscriber("prices", group="prices", start=Start.FIRST)
async def price(buttons: PositiveInt, prices: Annotated[Prices, Depends(Prices)]) -> int:
    """Answer what buttons cost, in cents."""
    return prices.of(buttons)


def create_app(name_server: str = "") -> FastStream:
    """Create the application, by default for the name server of the environment."""
    address = name_server or os.environ.get("NAMESRV_ADDR", NAME_SERVER)
    app = FastStream(RocketMQBroker(address, group="billing", routers=[router]))

    @app.on_startup
    def start() -> None:
        app.context.set_global("bills", {})

    return app
