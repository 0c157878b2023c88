"""What a member tells a broker of whatever make."""

from tests.shop import shop_at


async def test_the_broker_knows_who_is_there_and_what_is_wanted(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        consumer = here.consumer()
        consumer.subscribe(topic, print, "paid || refunded")
        async with consumer:
            group = await here.group()
        assert [member.client_id for member in group.connections] == [consumer.client_id]
        assert {name: data.expression for name, data in group.subscriptions.items()} == {
            topic: "paid || refunded",
            f"%RETRY%{topic}": "*",
        }
