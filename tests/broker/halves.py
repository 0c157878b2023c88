"""Half messages, their producer and its answers: what the tests of transactions share."""

from typing import NamedTuple

from msgspec.structs import replace
from tests.broker.conftest import Bench, Client, send_header

from cometmq.format import record
from cometmq.format.message_id import parse_offset_message_id
from cometmq.wire.bodies import Heartbeat
from cometmq.wire.bodies.heartbeat import ProducerData
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import CheckTransactionStateHeader, EndTransactionHeader, parse

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
IMMUNITY_MS = 6_000


class Half(NamedTuple):
    """Where a half message is."""

    physical_offset: int
    half_offset: int


async def prepare(bench: Bench, topic: str = "T", body: bytes = b"x", **named: str) -> Half:
    """Send a message in a transaction, as of now."""
    header = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": body.decode()} | named
    sent = replace(send_header(topic, queue_id=2, **header), born_time=bench.clock.now_ms())
    answer = await bench.ask(RequestCode.SEND_MESSAGE_V2, sent, body)
    assert (answer.code, answer.ext_fields["queueId"]) == (ResponseCode.SUCCESS, "2"), answer
    where = parse_offset_message_id(answer.ext_fields["msgId"])
    return Half(where.physical_offset, int(answer.ext_fields["queueOffset"]))


async def end(bench: Bench, half: Half, decision: int = COMMIT, **changes: object) -> Command:
    """End a transaction, and wait until that is noted."""
    return await bench.ask(RequestCode.END_TRANSACTION, ending(half, decision, **changes))


def ending(half: Half, decision: int = COMMIT, **changes: object) -> EndTransactionHeader:
    values: dict[str, object] = {"producer_group": "pg", "message_id": "x", **half._asdict(), **changes}
    return EndTransactionHeader(decision=decision, **values)  # type: ignore[arg-type]  # tests name the fields


async def produce(client: Client, group: str = "pg") -> None:
    """Be a producer that can be asked."""
    beat = Heartbeat(f"client of {group}", producers=[ProducerData(group)])
    assert (await client.ask(RequestCode.HEART_BEAT, body=beat)).code == ResponseCode.SUCCESS


async def check(bench: Bench, after_ms: int = IMMUNITY_MS + 1) -> None:
    """Advance the time, and ask for what is due."""
    bench.clock.advance(after_ms)
    await bench.parts.transaction_check.round()


async def asked(client: Client) -> tuple[Half, record.Record]:
    """Return the next question that a producer was asked: where the half message is, and the message."""
    command = await client.told.get()
    assert (command.code, command.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    header = parse(CheckTransactionStateHeader, command.ext_fields)
    message = record.decode(command.body)
    assert (message.physical_offset, message.queue_offset) == (header.physical_offset, header.half_offset)
    assert (header.topic, header.broker_name) == (HALF, "broker-a")
    return Half(header.physical_offset, header.half_offset), message


def records(bench: Bench, topic: str, queue_id: int = 0) -> list[record.Record]:
    found, offset = [], bench.store.min_queue_offset(topic, queue_id)
    while offset < bench.store.max_queue_offset(topic, queue_id):
        result = bench.store.get(topic, queue_id, offset)
        found += [record.decode(data) for data in result.records]
        offset = result.next_offset
    return found


def committed(bench: Bench, topic: str = "T") -> list[bytes]:
    """Return the bodies of the messages that consumers are given."""
    return [message.body for message in records(bench, topic, 2)]
