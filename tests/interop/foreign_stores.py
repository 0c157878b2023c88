"""Write the golden stores that hold what CometMQ does not serve, each by the real Apache RocketMQ.

``python -m tests.interop.foreign_stores [NAME …]`` runs a broker for each, and packs what it left into
``tests/golden/foreign/NAME.tgz``. Left out are backups, RocksDB's own log and options, and the timer wheel,
38 MB of zeros.
"""

import socket
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.conftest import GOLDEN
from tests.interop import jvm, peers, remoting
from tests.interop.patience import wait_until

FOREIGN: Final = GOLDEN / "foreign"
SMALL: Final[Mapping[str, object]] = peers.PATIENT | {
    "brokerName": peers.BROKER_NAME,
    "mappedFileSizeCommitLog": 16_384,
    "mappedFileSizeConsumeQueue": 600,
    "mapperFileSizeBatchConsumeQueue": 46 * 20,
    "compactionMappedFileSize": 16_384,
    "compactionCqMappedFileSize": 46 * 20,
    "compactionScheduleInternal": 1_000,
    "maxHashSlotNum": 20,
    "maxIndexNum": 80,
    "enableCompaction": "true",
}
TOPIC: Final = "Orders"
OTHER_TOPIC: Final = "OrdersOther"
UPDATE_TOPIC: Final = 17
SIZE_MAX: Final = 65_536
PAGE: Final = 4_096
COUNT: Final = 5
PROVIDER: Final = "org.apache.rocketmq.auth.{kind}.provider.Local{name}MetadataProvider"
LATER_MS: Final = 86_400_000
LEFT_OUT: Final = ("OPTIONS-*", "LOG*", "*.bak", "timerwheel")


class Kind(NamedTuple):
    """One golden store.

    Attributes:
        settings: what makes the broker write it.
        fill: has clients send what it is to hold, beside ``COUNT`` messages in ``TOPIC``.
        attributes: attributes of ``OTHER_TOPIC``, which gets as many messages; it is not made without.
    """

    settings: Mapping[str, object] = {}
    fill: Callable[[peers.Peer, Path], object] = lambda _peer, _home: None
    attributes: str = ""


def pops(peer: peers.Peer, home: Path) -> None:
    """Pop messages, and acknowledge none."""
    arguments = peers.BROKER_NAME, peer.broker, TOPIC, "poppers", 3, 3_600_000, 10_000
    jvm.run("Pop", *arguments, home=home)


def timed(peer: peers.Peer, home: Path) -> None:
    """Send messages that are due in a day."""
    jvm.run("Timed", peer.namesrv, "Timed", COUNT, LATER_MS, "leave", home=home)


def in_transactions(peer: peers.Peer, home: Path) -> None:
    """Send messages in transactions that nobody ends."""
    jvm.run("Transact", peer.namesrv, "Transacted", COUNT, "leave", home=home)


def tiered(peer: peers.Peer, _home: Path) -> None:
    """Wait until something is in tiered storage."""
    metadata = peer.store / "config" / "tieredStoreMetadata.json"
    wait_until(lambda: metadata.exists() and '"baseOffset"' in metadata.read_text())


DLEDGER_PORT: Final = peers.free_port()
KINDS: Final[Mapping[str, Kind]] = {
    "default": Kind(),
    "rocksdb-queues": Kind({"storeType": "defaultRocksDB"}),
    "rocksdb-queues-apart": Kind({"storeType": "defaultRocksDB", "useSeparateStorePathForRocksdbCQ": "true"}),
    "rocksdb-tables": Kind({"configManagerVersion": "v2"}),
    "rocksdb-one-table": Kind({"storeType": "defaultRocksDB", "useSingleRocksDBForAllConfigs": "true"}),
    "pops": Kind({"popConsumerKVServiceInit": "true", "popConsumerKVServiceEnable": "true"}, pops),
    "rocksdb-timer": Kind({"timerRocksDBEnable": "true"}, timed),
    "rocksdb-transactions": Kind(
        {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}, in_transactions
    ),
    "rocksdb-index": Kind({"indexRocksDBEnable": "true"}),
    "compaction": Kind(attributes="+cleanup.policy=COMPACTION"),
    "batch-queues": Kind(attributes="+queue.type=BatchCQ"),
    "rocksdb-users": Kind(
        {
            "authenticationMetadataProvider": PROVIDER.format(kind="authentication", name="Authentication"),
            "authorizationMetadataProvider": PROVIDER.format(kind="authorization", name="Authorization"),
            "initAuthenticationUser": '{"username":"admin","password":"secret"}',
        }
    ),
    "tiered": Kind(
        {
            "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
            "tieredBackendServiceProvider": "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
            "tieredStoreFilePath": "{root}-archive",
            "tieredStoreGroupCommitTimeout": 1_000,
            "tieredStoreGroupCommitCount": 1,
        },
        tiered,
    ),
    "dledger": Kind(
        {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": peers.BROKER_NAME,
            "dLegerPeers": f"n0-{peers.HOST}:{DLEDGER_PORT}",
            "dLegerSelfId": "n0",
        }
    ),
}


def create(peer: peers.Peer, topic: str, attributes: str) -> None:
    """Create a topic with attributes, as mqadmin does."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
        "attributes": attributes,
    }
    host, _, port = peer.broker.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        answer = remoting.ask(connection, remoting.frame(UPDATE_TOPIC, fields))
    assert answer.code == 0, answer.remark


def write(name: str, root: Path) -> None:
    """Write a store by a broker into a folder that does not exist yet."""
    kind, home = KINDS[name], root.with_name("client")
    settings = {name: str(value).replace("{root}", str(root)) for name, value in kind.settings.items()}
    with peers.rocketmq(root, {**SMALL, **settings}) as peer:
        topics = [TOPIC, OTHER_TOPIC] if kind.attributes else [TOPIC]
        if kind.attributes:
            create(peer, OTHER_TOPIC, kind.attributes)
        jvm.run("CreateTopic", peer.namesrv, peer.broker, 1, *topics, home=home)  # waits for their routes
        for topic in topics:
            jvm.run("Send", peer.namesrv, topic, "key", COUNT, home=home)
        kind.fill(peer, home)


def pack(root: Path, archive: Path) -> None:
    """Pack a store without what is left out, large files without the zeros at their end."""
    for pattern in LEFT_OUT:
        for path in root.rglob(pattern):
            path.unlink()
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_size > SIZE_MAX:
            data = path.read_bytes().rstrip(b"\0")
            path.write_bytes(data + bytes(-len(data) % PAGE))
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root, archive.stem)


def main(names: list[str]) -> None:
    """Write the stores of these names, or all."""
    for name in names or KINDS:
        with TemporaryDirectory() as folder:
            root = Path(folder) / name
            write(name, root)
            pack(root, FOREIGN / f"{name}.tgz")
        print(name, (FOREIGN / f"{name}.tgz").stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
