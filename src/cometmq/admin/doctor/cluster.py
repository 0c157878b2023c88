"""Examine name servers, what they know of brokers, routes of topics, and groups, over the network."""

import asyncio
from typing import Any, Final

from cometmq.admin.cluster import NO_BROKER, NO_MASTER, ClusterAdmin, missing_topic
from cometmq.admin.doctor import brokers
from cometmq.admin.doctor.findings import Diagnosis, counted, fault, fine, unreachable, warning
from cometmq.admin.group_survey import survey_groups
from cometmq.admin.topics import TopicAdmin, TopicOnBroker
from cometmq.cluster.route import MASTER
from cometmq.errors import CometMQError, NoRoute, UnreadableAnswer
from cometmq.net.address import parse_name_servers
from cometmq.wire.bodies.route import ClusterInfo

READ: Final = 4
WRITE: Final = 2
SHOWN_MAX: Final = 3
"""Most topics that a finding names."""

_NAME_SERVER: Final = "name server"
_ROUTE: Final = "route"
_START: Final = (
    "start it (cometmq namesrv --host ADDRESS), or give its address with --namesrv; if it runs, it must "
    "listen at that address, and no firewall may be in between; if it accepts TLS only, give --tls"
)


async def examine(
    name_servers: str, topic: str | None = None, *, is_new: bool = False, **access: Any
) -> list[Diagnosis]:
    """Examine name servers, the brokers that they know, and routes: of one topic, or of all.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        is_new: whether the first broker is still to come, so that none is known.
        access: see ``ClusterAdmin``.
    """
    addresses = parse_name_servers(name_servers)
    known = await asyncio.gather(*(_ask(address, access) for address in addresses))
    findings = [
        _name_server(address, one, is_new=is_new) for address, one in zip(addresses, known, strict=True)
    ]
    answers = {
        address: info for address, info in zip(addresses, known, strict=True) if isinstance(info, ClusterInfo)
    }
    if not answers:
        return findings
    address, info = max(answers.items(), key=lambda one: len(one[1].brokers))
    found = [
        brokers.Registered(name, broker_id, at, address)
        for name, data in sorted(info.brokers.items())
        for broker_id, at in sorted(data.addrs.items())
    ]
    findings += brokers.same_addresses(found)
    async with TopicAdmin(address, **access) as cluster:
        for of_broker in await asyncio.gather(*(brokers.examine(cluster, one) for one in found)):
            findings += of_broker
        findings += _masters(info)
        if found:
            findings += await _routes(cluster, topic)
        if topic is None and any(MASTER in data.addrs for data in info.brokers.values()):
            findings += await _groups(cluster)
    return findings


async def _ask(address: str, access: dict[str, Any]) -> ClusterInfo | CometMQError:
    """Return the brokers that one name server knows, or why it does not answer."""
    async with ClusterAdmin(address, **access) as one:
        try:
            return await one.info()
        except CometMQError as error:
            return error


def _name_server(address: str, known: ClusterInfo | CometMQError, *, is_new: bool) -> Diagnosis:
    if isinstance(known, CometMQError):
        return unreachable(_NAME_SERVER, address, known, _START)
    if not known.brokers:
        judge = warning if is_new else fault
        return judge(_NAME_SERVER, address, "it answers, and knows no broker", NO_BROKER)
    return fine(_NAME_SERVER, address, f"it knows {counted(len(known.brokers), 'broker')}")


def _masters(info: ClusterInfo) -> list[Diagnosis]:
    return [
        fault(
            _ROUTE,
            name,
            "it has slaves and no master: messages can be read and not sent",
            NO_MASTER,
        )
        for name, data in sorted(info.brokers.items())
        if MASTER not in data.addrs
    ]


async def _routes(cluster: TopicAdmin, topic: str | None) -> list[Diagnosis]:
    """Examine the queues of all topics, or of one."""
    try:
        if topic is None:
            lines = await cluster.lines(own_only=True)
        else:
            route = await cluster.route(topic)
            lines = [
                TopicOnBroker(topic, one.broker_name, one.read_count, one.write_count, one.perm)
                for one in route.queues
            ]
    except NoRoute:
        assert topic is not None
        error = await missing_topic(cluster, topic)
        text, _, remedy = str(error).partition("; ")
        return [fault(_ROUTE, topic, text, remedy or "groups create such topics when they start")]
    except CometMQError as error:
        return [unreachable(_ROUTE, topic or "topics", error, _START)]
    return _judge(lines)


async def _groups(cluster: ClusterAdmin) -> list[Diagnosis]:
    """Find groups that messages wait for, and that have committed nothing although they have members."""
    try:
        found = await survey_groups(cluster)
    except CometMQError as error:
        return [unreachable("groups", "groups", error, _START)]
    unreadable = [
        fault("groups", f"{one.broker_name} at {one.address}", *one.text.rsplit("; ", 1))
        for one in found.troubles
        if UnreadableAnswer.what in one.text  # the others have been found already
    ]
    return unreadable + [
        warning(
            "groups",
            group.group,
            f"it has {counted(group.members, 'member')} and has committed nothing yet, while "
            f"{counted(group.lag, 'message')} wait{'s' if group.lag == 1 else ''} for it",
            "if it has not just begun, its handlers hang or fail: see the logs of its members, which "
            f"cometmq group show {group.group} lists",
        )
        for group in found.groups
        if group.lag and group.members and not group.has_committed
    ]


def _judge(lines: list[TopicOnBroker]) -> list[Diagnosis]:
    """Find topics of which no broker accepts or delivers messages."""
    topics = sorted({line.topic for line in lines})
    writable = {line.topic for line in lines if line.perm & WRITE and line.write_queues}
    readable = {line.topic for line in lines if line.perm & READ and line.read_queues}
    findings = []
    for able, what in ((writable, "accepts"), (readable, "delivers")):
        if unable := [topic for topic in topics if topic not in able]:
            remedy = (
                f"cometmq topic update {unable[0]} --perm read-write; or brokerPermission=6 at the broker"
            )
            text = f"no broker {what} messages of {_listed(unable)}"
            findings.append(fault(_ROUTE, unable[0], text, remedy))
    if not findings:
        findings.append(
            fine(_ROUTE, _listed(topics) or "topics", f"{counted(len(topics), 'topic')} with queues")
        )
    return findings


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more
