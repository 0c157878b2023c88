"""Examine a broker's machine by its settings file: what stops its start, or will stop it later.

The broker may run meanwhile: then its ports are in use by itself.
"""

import os
import resource
import shutil
import socket
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cometmq.admin.doctor.certificate import examine_file
from cometmq.admin.doctor.findings import Diagnosis, fault, fine, warning
from cometmq.broker import settings as broker_settings
from cometmq.broker.broker import VIP_PORT_BELOW
from cometmq.broker.name_servers.own_address import exposure, own_ip
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.broker.settings_by_subject import MetricsExporter
from cometmq.errors import CometMQError, FormatError, SettingsError
from cometmq.io import descriptors
from cometmq.io.files import Disk, Usage
from cometmq.kernels.compiling import cache
from cometmq.net.address import address_text, parse_address
from cometmq.net.client import Connections
from cometmq.net.exposure import is_loopback
from cometmq.net.listening import remedy_of
from cometmq.net.settings_file import read_file
from cometmq.net.tls.settings import TlsMode
from cometmq.settings import foreign
from cometmq.store.files.spread import spread_of
from cometmq.store.foreign import contents
from cometmq.store.settings import StoreSettings
from cometmq.store.settings import from_properties as store_from_properties
from cometmq.store.upkeep.disk_space import used_percent
from cometmq.wire import settings_text
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

FILES_FAULT: Final = 1_024
FILES_WARNING: Final = 65_536
"""Numbers of descriptors below which a broker soon refuses connections, or may do so under load."""
CONNECT_TIMEOUT_MS: Final = 1_000
PORTS_FREE: Final = "they are free"
"""The text about ports where no broker runs yet."""
_OF_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_OF_CONTAINERS: Final = frozenset({"overlay", "aufs"})
_OF_NETWORKS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})
_MOUNTS: Final = Path("/proc/self/mounts")


def read_settings(path: Path) -> tuple[Settings | None, list[Diagnosis]]:
    """Read a broker's settings file; return its settings if they can be used, and what is wrong with them."""
    try:
        values = read_file(path)
        foreign.check(values)
        found = Settings(broker_settings.from_properties(values), store_from_properties(values))
    except (SettingsError, FormatError) as error:
        return None, [
            fault("settings", str(path), line, "correct it: docs/settings.md lists all settings")
            for line in str(error).splitlines()
        ]
    remedy = "correct names that are misspelt; those of RocketMQ that CometMQ does not have can stay"
    notes = foreign.notes_on(values, broker_settings.known_names())
    shown = [warning("settings", str(path), note, remedy) for note in notes]
    return found, shown or [fine("settings", str(path), f"{len(values)} settings")]


async def examine(settings: Settings, **access: Any) -> list[Diagnosis]:
    """Examine the machine that a broker with these settings runs on, or will run on.

    Args:
        access: see ``cometmq.net.client.Connections``: to ask a broker that runs there for its name.
    """
    own = settings.broker
    found = _exposure(own)
    found += _advertised(own)
    found += await _ports(own, access)
    root = Path(own.store_path_root_dir)
    found += _directory(root, settings.store)
    if settings.store.names_log:
        for directory in spread_of(root, settings.store).writable:
            found += _directory(directory, settings.store)
    found += [_descriptors(), _kernels()]
    found += _certificate(own)
    return found


def _exposure(own: BrokerSettings) -> list[Diagnosis]:
    subject = f"bindAddress = {own.network.bind_address}"
    try:
        if not (insecure := exposure(own)):
            return []
    except SettingsError as error:
        text, _, remedy = str(error).partition(". ")
        return [fault("access", subject, text, remedy or "give an address of this machine")]
    text, _, remedy = insecure.partition(". ")
    return [warning("access", subject, text, remedy)]


def _advertised(own: BrokerSettings) -> list[Diagnosis]:
    """Examine the address under which clients will find the broker, and whether any will."""
    if not own.network.name_servers:
        remedy = "set namesrvAddr = HOST:9876, several joined by ;"
        return [
            warning("address", "namesrvAddr", "no client finds it: it registers with no name server", remedy)
        ]
    try:
        ip = own_ip(own.network)
        elsewhere = [one for one in own.network.name_servers if not is_loopback(parse_address(one)[0])]
    except SettingsError as error:
        return [fault("address", "brokerIP1", str(error), "set brokerIP1 to the address that clients reach")]
    if is_loopback(ip) and elsewhere:
        text = f"{elsewhere[0]} will tell clients on other machines to connect to {ip}, their own"
        remedy = "set brokerIP1 and bindAddress to this machine's address, or bindAddress = 0.0.0.0"
        return [fault("address", f"brokerIP1 = {ip}", text, remedy)]
    if not _is_of_this_machine(ip):
        text = "it is not an address of this machine: it must be forwarded to it (containers, NAT)"
        remedy = f"forward port {own.network.listen_port} of it to this machine, or correct brokerIP1"
        return [warning("address", f"brokerIP1 = {ip}", text, remedy)]
    where = address_text(ip, own.network.listen_port)
    return [fine("address", f"brokerIP1 = {ip}", f"clients will connect to {where}")]


def _is_of_this_machine(ip: str) -> bool:
    family = socket.AF_INET6 if ip_address(ip).version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True


async def _ports(own: BrokerSettings, access: dict[str, Any]) -> list[Diagnosis]:
    """Examine whether the broker can listen at its ports, or does."""
    broker, host, port = own.identity.broker_name, own.network.bind_address, own.network.listen_port
    ports = [("listenPort", host, port)]
    if own.network.vip_channel_enable and port > VIP_PORT_BELOW:
        ports.append(("the VIP port, listenPort - 2", host, port - VIP_PORT_BELOW))
    if (metrics := own.metrics).metrics_exporter_type is MetricsExporter.PROM:
        where = metrics.metrics_prom_exporter_host, metrics.metrics_prom_exporter_port
        ports.append(("metricsPromExporterPort", *where))
    refused = {name: error for name, host, port in ports if (error := _refusal(host, port))}
    if not refused:
        return [fine("ports", ", ".join(str(port) for _, _, port in ports), PORTS_FREE)]
    if await _name_at(host, port, access) == broker:
        return [fine("ports", str(port), f"broker {broker} runs and listens there")]
    return [
        fault("ports", f"{name}: {address_text(host, port)}", "the broker cannot listen there", refused[name])
        for name, host, port in ports
        if name in refused
    ]


def _refusal(host: str, port: int) -> str:
    """Return why nothing can listen at an address, with the remedy; empty if something can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return remedy_of(error, port)
    return ""


async def _name_at(host: str, port: int, access: dict[str, Any]) -> str | None:
    """Return the name of the broker that listens at an address; None if that cannot be told."""
    at = "127.0.0.1" if ip_address(socket.gethostbyname(host)).is_unspecified else host
    connections = Connections(connect_timeout_ms=CONNECT_TIMEOUT_MS, **access)
    try:
        command = Command(RequestCode.GET_BROKER_CONFIG)
        answer = await connections.request(address_text(at, port), command, CONNECT_TIMEOUT_MS)
        return settings_text.decode(answer.body).get("brokerName")
    except CometMQError:
        return None
    finally:
        await connections.close()


def _directory(root: Path, store: StoreSettings) -> list[Diagnosis]:
    """Examine the directory of the store and its disk."""
    there = next(path for path in (root, *root.absolute().parents) if path.exists())
    if not there.is_dir():
        return [fault("disk", str(root), f"{there} is a file", "give a directory: storePathRootDir, --store")]
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"chown -R USER {there}, for the user that the broker runs as; or run this as that user"
        return [fault("disk", str(root), f"this user may not write in {there}", remedy)]
    used = shutil.disk_usage(there)
    percent = used_percent(Usage(used.used, used.free))
    text = f"{percent} % full, {used.free / 2**30:.1f} GiB free"
    free_space = "free space, choose another disk, or lower fileReservedTime (hours)"
    found = []
    if percent > store.disk_space_warning_level_ratio:
        ratio = store.disk_space_warning_level_ratio
        text += f": above diskSpaceWarningLevelRatio = {ratio} no messages are stored"
        found.append(fault("disk", str(root), text, free_space))
    elif used.free < 2 * store.mapped_file_size_commit_log:
        text += ": not enough for two more files of the log (mappedFileSizeCommitLog)"
        found.append(fault("disk", str(root), text, free_space))
    elif percent > store.disk_max_used_space_ratio:
        ratio = store.disk_max_used_space_ratio
        text += f": above diskMaxUsedSpaceRatio = {ratio} expired files are removed at any hour"
        found.append(warning("disk", str(root), text, free_space))
    else:
        found.append(fine("disk", str(root), text))
    found += [
        fault("store", str(one.path), f"holds {one.kind.what}, which CometMQ does not read", one.kind.remedy)
        for one in contents(Disk(), root)
        if one.kind.remedy
    ]
    return found + _file_system(there)


def _file_system(path: Path) -> list[Diagnosis]:
    kind = file_system_of(path)
    if kind in _OF_MEMORY:
        text, remedy = "it is memory: all messages are lost with power", "choose a directory on a disk"
    elif kind in _OF_CONTAINERS:
        text, remedy = (
            "it is the container's own layer: messages are gone with the container",
            "mount a volume",
        )
    elif kind in _OF_NETWORKS:
        text, remedy = "it is on the network: syncs are slow, and its locks may fail", "choose a local disk"
    else:
        return []
    return [warning("disk", str(path), f"file system {kind}: {text}", remedy)]


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the kind of the file system that a directory is on, as Linux names it; empty if unknown."""
    kinds: dict[Path, str] = {}
    with suppress(OSError):
        for line in mounts.read_text().splitlines():
            _, point, kind, *_ = line.split(" ")
            kinds[Path(point.replace("\\040", " "))] = kind
    whole = path.resolve()
    return next((kinds[one] for one in (whole, *whole.parents) if one in kinds), "")


def _descriptors() -> Diagnosis:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = descriptors.UNLIMITED if hard == resource.RLIM_INFINITY else hard
    connections, files = descriptors.connections_max(count), descriptors.files_max(count)
    text = f"a broker of this user may open {count}: {connections} connections, and {files} files kept open"
    if count >= FILES_WARNING:
        return fine("descriptors", "ulimit -Hn", text)
    remedy = (
        "LimitNOFILE=1048576 in its unit, --ulimit nofile=1048576 for a container, limits.conf for a login"
    )
    judge = fault if count < FILES_FAULT else warning
    return judge("descriptors", "ulimit -Hn", text, remedy)


def _kernels() -> Diagnosis:
    if find_spec("numba") is None:
        text = "numba is not installed: the slower plain operations will serve"
        return warning("kernels", "numba", text, "pip install 'cometmq[fast]'")
    if cache.is_warm():
        return fine("kernels", "cache", "they are compiled")
    text = "they are not compiled: a broker will do that in its first minutes, slower until then"
    return warning("kernels", "cache", text, "run cometmq kernels as the broker's user")


def _certificate(own: BrokerSettings) -> list[Diagnosis]:
    if own.tls.tls_mode is TlsMode.DISABLED:
        return []
    cert, key = own.tls.tls_server_cert_path, own.tls.tls_server_key_path
    if not cert:
        remedy = "set tlsServerCertPath and tlsServerKeyPath"
        return [fault("TLS", f"tlsServerMode = {own.tls.tls_mode}", "it needs a certificate", remedy)]
    try:
        host = own_ip(own.network)
        return examine_file(Path(cert), Path(key) if key else None, own.tls.tls_server_key_password, host)
    except SettingsError as error:
        remedy = "correct tlsServerCertPath, tlsServerKeyPath, tlsServerKeyPassword, or the files"
        return [fault("TLS", cert, str(error), remedy)]
