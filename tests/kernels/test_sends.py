import numpy as np
from tests.kernels.sending import PIECES, Reader, json_frame

from cometmq.format.host import pack_host
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends import SEND, SENDS_MAX, hosts_of

HOSTS = hosts_of(pack_host("10.0.0.7", 50123), pack_host("127.0.0.1", 10911))


def test_entries_are_the_same_memory_as_the_sends(compiled: Ops) -> None:
    batch = Reader(compiled).batch
    batch.sends[2]["queue"], batch.sends[2]["tags_code"] = 5, -9
    assert batch.entries.shape == (SENDS_MAX, 5)
    assert batch.entries[2].tolist() == [5, 0, 0, 0, -9]
    assert SEND.itemsize == 8 * len(SEND.names or ())


def test_what_could_not_be_written_gives_its_queue_offsets_back(compiled: Ops) -> None:
    reader = Reader(compiled)
    reader.read(json_frame() + json_frame({"e": "2"}) + json_frame())
    reader.batch.encode(HOSTS, reader.next_offsets, 0, 1 << 20, 0)
    assert reader.next_offsets.tolist() == [0, 12, 21, 30]
    reader.batch.take_back(reader.next_offsets)
    assert reader.next_offsets.tolist() == [0, 10, 20, 30]


def test_room_grows_with_what_is_read(compiled: Ops) -> None:
    reader = Reader(compiled)
    data = json_frame({"i": f"a\x01{'v' * 900}\x02UNIQ_KEY\x01abc\x02"}, bytes(1000)) * 500
    assert reader.read(data) == (len(data), len(data))
    records = reader.batch.encode(HOSTS, reader.next_offsets, 0, 1 << 30, 0)
    assert (
        reader.batch.count == 500
        and len(records) == reader.send(499)["physical_offset"] + reader.send()["size"]
    )
    assert reader.batch.answers().count(PIECES[0]) == 500


def test_hosts_are_given_as_arrays() -> None:
    assert np.array_equal(HOSTS.born, [10, 0, 0, 7, 0, 0, 50123 >> 8, 50123 & 255])
