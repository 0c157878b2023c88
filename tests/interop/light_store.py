"""Write the golden stores with light queues: ``python -m tests.interop.light_store`` does it anew.

The real broker runs with ``enableLmq`` and ``enableMultiDispatch``. ``store-light-killed.tgz`` is what it
left when it was killed, ``store-light.tgz`` what the next one, after more messages, left when it was stopped.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.interop import peers, remoting
from tests.interop.patience import wait_until

from cometmq.format.layout import commitlog_path
from cometmq.format.record import Record, record_at
from cometmq.format.scan import scan

SETTINGS: Final[dict[str, object]] = {
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "mappedFileSizeCommitLog": 1 << 15,
    "mappedFileSizeConsumeQueue": 600,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "messageDelayLevel": "1s 2s",
}
"""Queue files hold 30 entries, so that some light queues have several."""
TOPIC: Final = "LightParent"
ROOMS: Final = ("%LMQ%$LightParent$one", "%LMQ%$LightParent$two", "%LMQ%session-s0", "%LMQ%a.b")
READER: Final = "%LMQ%reader"
KEPT: Final = ("commitlog", "consumequeue", "index", "checkpoint", "abort", "config")
SEND_V2, COMMIT_OFFSET = 310, 15
OK: Final = 0
GOLDEN: Final = Path(__file__).parent.parent / "golden"


def properties(key: str, rooms: str, **others: str) -> str:
    """Return the properties of a message for light queues, as they are sent."""
    named = {"UNIQ_KEY": f"LIGHT{key}", "TAGS": f"tag{key[-1]}", "INNER_MULTI_DISPATCH": rooms} | others
    return "".join(f"{name}\x01{value}\x02" for name, value in named.items() if value)


def send(connection: socket.socket, body: str, text: str, *, queue: int = 0, topic: str = TOPIC) -> None:
    """Send one message, which the broker must accept."""
    # group, topic, default topic and queues, queue, flags, time, flag, properties, times it was tried
    values = ("sender", topic, "TBW102", "2", str(queue), "0", "1700000000000", "0", text, "0")
    fields = dict(zip("abcdefghij", values, strict=True))
    answer = remoting.ask(connection, remoting.frame(SEND_V2, fields, body.encode()))
    assert answer.code == OK, answer


def send_kinds(connection: socket.socket, run: str) -> None:
    """Send each kind of message once."""
    one, two, session, dotted = ROOMS
    kinds = {
        "none": "",
        "single": one,
        "both": f"{one},{two}",
        "all": ",".join(ROOMS),
        "plain": session,
        "trailing": f"{two},",
        "no light name": "Elsewhere",
        "other folder": "%LMQ%a/b",
    }
    for kind, rooms in kinds.items():
        send(connection, f"{run} {kind}", properties(f"{run}{kind[0]}", rooms), queue=len(kind) % 2)
    send(connection, f"{run} delayed", properties(f"{run}d", dotted, DELAY="1"))
    send(connection, f"{run} untagged", properties(f"{run}u", one, TAGS=""))
    send(connection, f"{run} retried", properties(f"{run}r", one), topic="%RETRY%readers")


def send_many(connection: socket.socket, run: str, count: int) -> None:
    """Send messages to each light queue in turn."""
    for number in range(count):
        rooms = ",".join(ROOMS[: 1 + number % len(ROOMS)])
        send(connection, f"{run} {number}", properties(f"{run}{number}", rooms), queue=number % 2)


def commit_offsets(connection: socket.socket) -> None:
    """Commit an offset of a group in a light queue, which goes to a table of its own."""
    fields = {"consumerGroup": READER, "topic": ROOMS[0], "queueId": "0", "commitOffset": "3"}
    assert remoting.ask(connection, remoting.frame(COMMIT_OFFSET, fields)).code == OK


def write(folder: Path) -> tuple[Path, Path]:
    """Write the killed store and the closed one into a folder."""
    running, killed, closed = folder / "running", folder / "store-light-killed", folder / "store-light"
    with peers.rocketmq(running, SETTINGS, ended_by=signal.SIGKILL) as peer, connected(peer) as connection:
        send_kinds(connection, "k")
        send_many(connection, "k", 40)
        wait_until(lambda: has_arrived(running, "k delayed"))
        commit_offsets(connection)
    keep(running, killed)
    with peers.rocketmq(running, SETTINGS) as peer, connected(peer) as connection:
        send_many(connection, "c", 60)
        send_kinds(connection, "c")
        wait_until(lambda: has_arrived(running, "c delayed"))
        commit_offsets(connection)
    keep(running, closed)
    return killed, closed


def connected(peer: peers.Peer) -> socket.socket:
    """Connect to a broker."""
    host, _, port = peer.broker.partition(":")
    return socket.create_connection((host, int(port)))


def has_arrived(store: Path, body: str) -> bool:
    """Return whether a delayed message is there for readers, in the log of one file or more."""
    return any(record.topic == TOPIC and record.body == body.encode() for record in records(store))


def records(store: Path) -> list[Record]:
    """Read all records of a small store."""
    found = []
    for path in sorted(commitlog_path(store, 0).parent.iterdir()):
        data = path.read_bytes()
        found += [record_at(data, head) for head in scan(data, base_offset=int(path.name))]
    return found


def keep(store: Path, target: Path) -> None:
    """Copy what a golden store needs."""
    target.mkdir()
    for name in KEPT:
        if (store / name).is_dir():
            shutil.copytree(store / name, target / name)
        elif (store / name).exists():
            shutil.copy2(store / name, target / name)


def main() -> None:
    """Write the golden archives."""
    with tempfile.TemporaryDirectory() as folder:
        for store in write(Path(folder)):
            archive = GOLDEN / f"{store.name}.tgz"
            subprocess.run(
                ["tar", "-czSf", archive, "--owner=0", "--group=0", store.name], cwd=folder, check=True
            )
            print(archive, archive.stat().st_size)


if __name__ == "__main__":
    main()
