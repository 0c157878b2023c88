"""The values that go into the store and come out of it."""

from cometmq.format.host import pack_host
from cometmq.format.record import Record
from cometmq.store.append import Appended, NewMessage


def test_a_message_needs_no_more_than_what_every_message_has() -> None:
    host = pack_host("127.0.0.1", 10911)
    message = NewMessage("Orders", 0, b"body", b"", 1_000, host, host)
    assert message[7:] == (None, 0, 0, 0, 0)


def test_a_message_has_a_records_fields_but_for_those_that_the_store_gives_it() -> None:
    given_by_the_store = {"queue_offset", "physical_offset", "store_time", "body_crc", "magic"}
    assert set(NewMessage._fields) - {"tags"} == set(Record._fields) - given_by_the_store
    assert set(Appended._fields) <= given_by_the_store | {"size"}
