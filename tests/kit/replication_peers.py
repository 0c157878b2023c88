"""Settings of masters and slaves of either product, and what they are asked."""

import socket

from tests.interop import peers, remoting

FILE = 1 << 20
HA_STATUS, TOPIC_CONFIG = 907, 351
BOTH: dict[str, object] = peers.PATIENT | {
    "brokerName": "pair",
    "mappedFileSizeCommitLog": FILE,
    "haSendHeartbeatInterval": 1_000,
}
SLAVE: dict[str, object] = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}


def ha_port() -> dict[str, object]:
    return {"haListenPort": peers.free_port()}


def asked(address: str, code: int, **fields: str) -> remoting.Answer:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        return remoting.ask(connection, remoting.frame(code, fields))
