"""Asking live brokers how they stand, and what Java brokers leave open."""

from pathlib import Path

import pytest
from tests.live import serving

from cometmq.admin.broker_status import broker_status, pointers_of, runtime_info, status_of
from cometmq.client import Producer
from cometmq.errors import NetworkError, RemoteError
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.testing.memory_disk import MemoryDisk

JAVA = {
    "commitLogMinOffset": "0",
    "commitLogMaxOffset": "5000",
    "dispatchBehindBytes": "0",
    "remainHowManyDataToFlush": "0 B",
}
"""What a Java broker tells that has flushed everything."""


async def test_a_broker_tells_all_its_pointers_and_why_it_takes_no_messages(tmp_path: Path) -> None:
    disk = MemoryDisk()
    seldom = {"flush_interval_commit_log": 1_000_000}
    async with serving(tmp_path, store=seldom, files=disk) as live:
        async with Producer(live.name_server) as producer:
            await producer.send(Message("Orders", b"x"))
        status = await broker_status(live.broker)
        written = status.pointers["written"]
        assert written is not None and written > 100
        assert list(status.pointers.values()) == [0, written, written, 0, written, written]
        assert (status.address, status.not_writable, status.failed_writes) == (live.broker, "", "")
        assert "seconds" in status.up and status.version.startswith("V")


async def test_who_is_no_broker_does_not_tell(tmp_path: Path) -> None:
    with pytest.raises(NetworkError):
        await runtime_info(f"127.0.0.1:{free_port()}")
    async with serving(tmp_path) as live:
        with pytest.raises(RemoteError, match="is a name server, not a broker"):
            await runtime_info(live.name_server)


def test_what_a_java_broker_does_not_tell_is_not_known_and_not_well() -> None:
    status = status_of("127.0.0.1:10911", JAVA)
    assert (status.kernels, status.failed_writes) == (None, None)


def test_of_a_java_broker_that_is_idle_all_pointers_are_known() -> None:
    assert list(pointers_of(JAVA).values()) == [0, 5000, 5000, 5000, 5000, 5000]


@pytest.mark.parametrize(
    ("lag", "flushed"), [("100 B", 4900), ("1.5 KiB", None), ("", None), ("B", None), ("x B", None)]
)
def test_of_a_java_broker_that_lags_only_what_it_tells_is_known(lag: str, flushed: int | None) -> None:
    pointers = pointers_of(JAVA | {"remainHowManyDataToFlush": lag})
    assert list(pointers.values()) == [0, 5000, 5000, flushed, None, None]


def test_of_what_is_no_runtime_info_nothing_is_known() -> None:
    for text in ("many", "--5", "9" * 5_000):
        assert set(pointers_of({"commitLogMaxOffset": text}).values()) == {None}
