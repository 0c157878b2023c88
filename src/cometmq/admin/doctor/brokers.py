"""Examine one registered broker over the network: its address, ports, clock, and what it says of itself."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cometmq.admin.broker_status import DIGITS_MAX, number_in, runtime_info_of
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.doctor.certificate import judge_expiry, peer_expiry
from cometmq.admin.doctor.findings import Diagnosis, fault, fine, unreachable, warning
from cometmq.client.answer import answers_of
from cometmq.errors import CometMQError, NetworkError, RemoteError, SettingsError, UnreadableAnswer
from cometmq.net.address import address_text, parse_address
from cometmq.net.exposure import is_loopback
from cometmq.wire import settings_text
from cometmq.wire.codes import RequestCode

VIP_PORT_BELOW: Final = 2
"""Distance of the VIP port below the listen port."""
SKEW_FAULT_MS: Final = 5_000
SKEW_WARNING_MS: Final = 1_000
USED_WARNING: Final = 0.75
"""Used share of a disk above which a broker removes expired files at any hour (diskMaxUsedSpaceRatio)."""
USED_FAULT: Final = 0.90
"""… above which it refuses messages (diskSpaceWarningLevelRatio)."""
CONNECTIONS_WARNING: Final = 0.8
"""Used share of the connections that a broker accepts."""
NOW: Final = "nowTimestamp"
"""The key of a CometMQ broker's wall-clock time in its runtime info."""


class Registered(NamedTuple):
    """A broker as a name server knows it.

    Attributes:
        address: the address that it advertises, ``host:port``.
        name_server: the name server that knows it.
    """

    name: str
    broker_id: int
    address: str
    name_server: str

    @property
    def label(self) -> str:
        """Its name and address."""
        return f"{self.name} at {self.address}"


def same_addresses(found: Sequence[Registered]) -> list[Diagnosis]:
    """Find addresses that several brokers advertise."""
    counts = Counter(one.address for one in found)
    return [
        fault(
            "address",
            address,
            f"{', '.join(one.name for one in found if one.address == address)} advertise the same address, "
            "where only one of them can be",
            "set brokerIP1 of each to the address of its own machine, or listenPort to a port of its own",
        )
        for address, count in counts.items()
        if count > 1
    ]


async def examine(cluster: ClusterAdmin, broker: Registered) -> list[Diagnosis]:
    """Examine one broker: whether clients reach it at the address that it advertises, and its state there."""
    if finding := _advertised(broker):
        return [finding]
    try:
        with answers_of(broker.address):
            return await _examine(cluster, broker)
    except UnreadableAnswer as error:
        return [unreachable("address", broker.label, error, "")]


async def _examine(cluster: ClusterAdmin, broker: Registered) -> list[Diagnosis]:
    began_ms = _now_ms()
    try:
        info = await runtime_info_of(cluster.connections, broker.address)
    except CometMQError as error:
        return [unreachable("address", broker.label, error, _unreachable_remedy(broker))]
    clock = _clock(broker, info, began_ms, _now_ms())
    settings = await _settings(cluster, broker.address)
    if (name := settings.get("brokerName", broker.name)) != broker.name:
        text = f"another broker answers there: {name}"
        return [
            fault("address", broker.label, text, "set brokerIP1 of each to the address of its own machine")
        ]
    findings = [fine("address", broker.label, "clients of this machine reach it there")]
    findings += await _vip_port(cluster, broker, settings)
    findings += [clock, *_state(broker, info)]
    if cluster.tls is not None:
        findings.append(judge_expiry(broker.label, await peer_expiry(broker.address, cluster.tls)))
    return findings


def _advertised(broker: Registered) -> Diagnosis | None:
    """Judge the address that a broker advertises by that of its name server; None if it can be tried."""
    try:
        host, port = parse_address(broker.address)
    except SettingsError as error:
        return fault("address", broker.label, str(error), "set brokerIP1 to an IP address or a name")
    name_server_host, _ = parse_address(broker.name_server)
    try:
        if not is_loopback(host) or is_loopback(name_server_host):
            return None
    except SettingsError:  # a name that this machine does not know: connecting says so
        return None
    return fault(
        "address",
        broker.label,
        f"it advertises {host}, which each client takes for its own machine, and its name server is at "
        f"{name_server_host}",
        "set brokerIP1 in the broker's file to the address under which clients reach it, bindAddress to that "
        f"or 0.0.0.0, and restart it; port {port} must be open",
    )


def _unreachable_remedy(broker: Registered) -> str:
    _, port = parse_address(broker.address)
    return (
        "start the broker if it is down; if it runs, set its brokerIP1 to an address that clients reach, let "
        f"it listen there (bindAddress), and open port {port} in firewalls and containers"
    )


async def _settings(cluster: ClusterAdmin, address: str) -> Mapping[str, str]:
    """Return a broker's settings by their names in files; none if this user may not see them."""
    try:
        return settings_text.decode((await cluster.ask(address, RequestCode.GET_BROKER_CONFIG)).body)
    except RemoteError:
        return {}


async def _vip_port(
    cluster: ClusterAdmin, broker: Registered, settings: Mapping[str, str]
) -> list[Diagnosis]:
    host, port = parse_address(broker.address)
    vip = port - VIP_PORT_BELOW
    if settings.get("vipChannelEnable") == "false" or vip < 1:
        return []
    try:
        await cluster.connections.connect(address_text(host, vip))
    except NetworkError as error:
        return [
            warning(
                "ports",
                broker.label,
                f"its VIP port {vip}, for the dashboard and Java clients up to 4.4, is not open: {error}",
                f"open port {vip} in firewalls and containers; if another program has it, free it and "
                "restart the broker; if nobody needs it, set vipChannelEnable=false",
            )
        ]
    return [fine("ports", broker.label, f"{port} and the VIP port {vip} are open")]


def _clock(broker: Registered, info: Mapping[str, str], began_ms: int, ended_ms: int) -> Diagnosis:
    """Judge a broker's clock by this machine's, as far as it certainly differs."""
    times = clock_of(info)
    if times is None:
        return fine("clock", broker.label, "it does not report its time")
    earliest_ms, latest_ms = times
    skew_ms = max(earliest_ms - ended_ms, began_ms - latest_ms, 0)
    if skew_ms < SKEW_WARNING_MS:
        return fine("clock", broker.label, "it agrees with this machine's")
    judge = fault if skew_ms >= SKEW_FAULT_MS else warning
    direction = "ahead of" if earliest_ms > ended_ms else "behind"
    return judge(
        "clock",
        broker.label,
        f"it is {skew_ms / 1000:.1f} s {direction} this machine's: timed messages come at the wrong time, "
        "and searches by time find others",
        "set both clocks by NTP (timedatectl says whether that is on; systemd-timesyncd or chrony do it)",
    )


def clock_of(info: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the earliest and the latest time, ms since the epoch, that a broker's clock may have shown.

    A Java broker reports when it started and for how many seconds it runs. None if neither is there.
    """
    if (now := info.get(NOW, "")).isdecimal() and len(now) <= DIGITS_MAX:
        return int(now), int(now)
    words = info.get("runtime", "").strip("[ ]").replace(",", "").split()
    counts = words[::2]
    numbers = [info.get("bootTimestamp", ""), *counts]
    if len(numbers) != 5 or not all(one.isdecimal() and len(one) <= DIGITS_MAX for one in numbers):
        return None
    booted_ms, days, hours, minutes, seconds = map(int, numbers)
    now_ms = booted_ms + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return now_ms, now_ms + 999


def _state(broker: Registered, info: Mapping[str, str]) -> list[Diagnosis]:
    """Judge what a broker says of itself; a Java broker says less."""
    found = [_disk(broker, info), *_store(broker, info), *_connections(broker, info), *_kernels(broker, info)]
    if insecure := info.get("insecure"):
        text, _, remedy = insecure.partition(". ")
        found.append(warning("access", broker.label, text, remedy))
    if different := info.get("subscriptionDifferences"):
        remedy = "subscribe all members of a group to the same topics and tags, or use several groups"
        found.append(fault("groups", broker.label, different, remedy))
    return found


def _store(broker: Registered, info: Mapping[str, str]) -> list[Diagnosis]:
    found = []
    if reason := info.get("storeNotWritable"):
        remedy = "free space on its disk, or lower fileReservedTime so that older messages are removed"
        found.append(fault("store", broker.label, f"it accepts no messages: {reason}", remedy))
    if reason := info.get("storeFailedWrites"):
        remedy = "see the broker's log and the kernel's (dmesg) for the disk; then restart the broker"
        found.append(fault("store", broker.label, f"writes fail: {reason}", remedy))
    return found


def _disk(broker: Registered, info: Mapping[str, str]) -> Diagnosis:
    used = number_in(info, "commitLogDiskRatio")
    text = f"{used:.0%} full ({info.get('commitLogDirCapacity', '').strip()})".replace(" ()", "")
    if used <= USED_WARNING:
        return fine("disk", broker.label, text)
    judge = fault if used > USED_FAULT else warning
    return judge("disk", broker.label, text, "free space, add a disk, or lower fileReservedTime (hours)")


def _connections(broker: Registered, info: Mapping[str, str]) -> list[Diagnosis]:
    count, most, refused = (
        round(number_in(info, key)) for key in ("connectionCount", "connectionCountMax", "connectionsRefused")
    )
    if not most:
        return []
    text = f"{count} of {most} connections are in use, {refused} were refused"
    if not refused and count < most * CONNECTIONS_WARNING:
        return [fine("descriptors", broker.label, text)]
    remedy = (
        "raise the limit of open files before the broker starts: LimitNOFILE=1048576 in its unit, "
        "--ulimit nofile=1048576 for a container, ulimit -n in a shell; or maxConnections if that is set"
    )
    return [(fault if refused else warning)("descriptors", broker.label, text, remedy)]


def _kernels(broker: Registered, info: Mapping[str, str]) -> list[Diagnosis]:
    serving = info.get("kernels")
    if serving is None:
        return []
    if serving.startswith("compiled") or "compiling" in serving:
        return [fine("kernels", broker.label, serving)]
    remedy = "pip install 'cometmq[fast]' where the broker runs, then cometmq kernels, and restart it"
    return [warning("kernels", broker.label, f"the slower plain operations serve ({serving})", remedy)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
