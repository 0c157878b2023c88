"""The status of a broker, of CometMQ or Java, from its runtime info.

A Java broker does not report all pointers, and lags above one KiB only roughly.

Source: RocketMQ ``broker/AdminBrokerProcessor.java`` (prepareRuntimeInfo).
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from cometmq.arguments import TEXT, check
from cometmq.client.answer import answers_of, ask_broker
from cometmq.client.credentials import find_credentials
from cometmq.errors import FormatError
from cometmq.net.client import Connections
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies import TextTable, decode
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

DIGITS_MAX: Final = 20
"""Most characters of a number in runtime info, which has 64 bits."""


class BrokerStatus(NamedTuple):
    """The status of a broker.

    Attributes:
        up: its uptime, in words.
        not_writable: why it stores no messages; empty if it does.
        kernels: the bulk operations in use, ``compiled`` or ``plain`` with the reason; None for a Java
            broker.
        failed_writes: the writes to its disk that fail; empty if none do, None for a Java broker.
        insecure: who may use it, if that is insecure; empty if not.
        pointers: by the names of ``store.Pointers``; None for those that the broker does not report.
    """

    address: str
    version: str
    up: str
    not_writable: str
    kernels: str | None
    failed_writes: str | None
    insecure: str
    pointers: Mapping[str, int | None]


async def runtime_info(
    address: str, *, credentials: Credentials | None = None, tls: TLS | bool | None = None
) -> dict[str, str]:
    """Return a broker's runtime info, by RocketMQ's keys. Raises NetworkError, RemoteError."""
    check(TEXT, address=address)
    connections = Connections(credentials=find_credentials(credentials), tls=tls_of(tls))
    try:
        return await runtime_info_of(connections, address)
    finally:
        await connections.close()


async def runtime_info_of(connections: Connections, address: str) -> dict[str, str]:
    """Return a broker's runtime info over open connections.

    Raises WrongServer too, for a name server; UnreadableAnswer.
    """
    answer = await ask_broker(connections, address, Command(RequestCode.GET_BROKER_RUNTIME_INFO))
    with answers_of(address):
        return decode(TextTable, answer.body).table


def number_in(info: Mapping[str, str], key: str) -> float:
    """Return a number of runtime info, 0 if it is not there. Raises FormatError for a text that is none."""
    text = info.get(key, "").strip()
    try:
        found = float(text or 0)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise FormatError(f"{key} in its runtime info is no number: {text[:100]!r}")
    return found


async def broker_status(
    address: str, *, credentials: Credentials | None = None, tls: TLS | bool | None = None
) -> BrokerStatus:
    """Return the status of a broker. Raises NetworkError, RemoteError."""
    return status_of(address, await runtime_info(address, credentials=credentials, tls=tls))


def status_of(address: str, info: Mapping[str, str]) -> BrokerStatus:
    """Build the status of a broker from its runtime info."""
    return BrokerStatus(
        address,
        info.get("brokerVersionDesc", ""),
        info.get("runtime", "").strip("[ ]"),
        info.get("storeNotWritable", ""),
        info.get("kernels"),
        info.get("storeFailedWrites"),
        info.get("insecure", ""),
        pointers_of(info),
    )


def pointers_of(info: Mapping[str, str]) -> dict[str, int | None]:
    """Return the store's pointers from runtime info."""
    committed = _number(info, "commitLogMaxOffset")
    flushed = _number(info, "commitLogFlushedOffset")
    confirmed = _number(info, "commitLogConfirmOffset")
    dispatched = _number(info, "commitLogDispatchedOffset")
    if committed is not None and confirmed is None:  # a Java broker
        lag = info.get("remainHowManyDataToFlush", "").split(" ")
        left = _integer(lag[0])
        flushed = committed - left if lag[1:] == ["B"] and left is not None else None
        if flushed == committed:  # then all of it may be read, whatever the flush mode
            confirmed = committed
            dispatched = committed - (_number(info, "dispatchBehindBytes") or 0)
    return {
        "begin": _number(info, "commitLogMinOffset"),
        "written": _number(info, "commitLogWrittenOffset", committed),
        "committed": committed,
        "flushed": flushed,
        "confirmed": confirmed,
        "dispatched": dispatched,
    }


def _number(info: Mapping[str, str], key: str, default: int | None = None) -> int | None:
    return _integer(info.get(key, ""), default)


def _integer(text: str, default: int | None = None) -> int | None:
    return int(text) if len(text) <= DIGITS_MAX and text.removeprefix("-").isdecimal() else default
