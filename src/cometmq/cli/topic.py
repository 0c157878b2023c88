"""``cometmq topic``: create, list, show, change, shrink and delete topics."""

from collections.abc import Mapping
from typing import NamedTuple

import click

from cometmq.admin.readable import time_text
from cometmq.admin.topics import TopicOnBroker
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.output import (
    json_option,
    namesrv_option,
    print_json,
    print_line,
    print_table,
)
from cometmq.cli.topic_shrink import shrink
from cometmq.errors import SettingsError
from cometmq.format.layout import QUEUE_COUNT_MAX
from cometmq.wire.bodies.topic import MESSAGE_TYPES

PERMISSIONS = {"read-write": 6, "write-only": 2, "read-only": 4}
PERM_NAMES = {perm: name for name, perm in PERMISSIONS.items()} | {7: "read-write, pattern", 1: "pattern"}
"""Bit 1 marks a pattern, from which a send creates new topics."""


@click.group()
def topic() -> None:
    """Create, list, show, change, shrink and delete topics."""


topic.add_command(shrink)


@topic.command("create")
@click.argument("name")
@click.option(
    "--queues", type=click.IntRange(1, QUEUE_COUNT_MAX), default=8, show_default=True, help="Per broker."
)
@click.option(
    "--perm",
    type=click.Choice(list(PERMISSIONS)),
    default="read-write",
    show_default=True,
    help="What clients may do.",
)
@click.option(
    "--type",
    "message_type",
    type=click.Choice(MESSAGE_TYPES, case_sensitive=False),
    help="Type of messages that RocketMQ 5 clients send.  [default: as it is; NORMAL of a new topic]",
)
@namesrv_option
@json_option
def create(name: str, queues: int, perm: str, message_type: str | None, namesrv: str, as_json: bool) -> None:
    """Create the topic NAME on every broker, or change it there."""
    brokers = run_in_cluster(
        namesrv,
        lambda admin: admin.create(name, queues=queues, perm=PERMISSIONS[perm], message_type=message_type),
    )
    if as_json:
        print_json({"topic": name, "queues": queues, "perm": PERMISSIONS[perm], "brokers": brokers})
    else:
        print_line(f"topic {name}: {queues} queues, {perm}, on {', '.join(brokers)}")


@topic.command("delete")
@click.argument("name")
@namesrv_option
@json_option
def delete(name: str, namesrv: str, as_json: bool) -> None:
    """Delete the topic NAME, and its queues, from every broker and name server."""
    brokers = run_in_cluster(namesrv, lambda admin: admin.delete(name))
    if as_json:
        print_json({"topic": name, "deleted_from": brokers})
    else:
        print_line(f"topic {name}: deleted from {', '.join(brokers)}")


@topic.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that brokers create by themselves.")
@namesrv_option
@json_option
def list_topics(everything: bool, namesrv: str, as_json: bool) -> None:
    """List the topics of all brokers, except those that brokers create by themselves.

    Those are RocketMQ's own, and the topics of groups for retries (%RETRY%…) and dead letters (%DLQ%…).
    """
    _print_lines(run_in_cluster(namesrv, lambda admin: admin.lines(own_only=not everything)), as_json=as_json)


@topic.command("show")
@click.argument("name")
@namesrv_option
@json_option
def show(name: str, namesrv: str, as_json: bool) -> None:
    """Show the settings of the topic NAME on each broker, its attributes too."""
    configs = run_in_cluster(namesrv, lambda admin: admin.configs(name))
    rows = [
        SettingsLine(name, config.read_queue_count, config.write_queue_count, config.perm, config.attributes)
        for name, (_, config) in sorted(configs.items())
    ]
    if as_json:
        print_json({"topic": name, "brokers": [row._asdict() for row in rows]})
        return
    shown = [
        (
            *row[:3],
            PERM_NAMES.get(row.perm, row.perm),
            ", ".join(f"{key}={value}" for key, value in sorted(row.attributes.items())) or "-",
        )
        for row in rows
    ]
    print_table(("broker", "read queues", "write queues", "perm", "attributes"), shown)


@topic.command("update")
@click.argument("name")
@click.option("--queues", type=click.IntRange(1, QUEUE_COUNT_MAX), help="Per broker; not fewer: see shrink.")
@click.option("--perm", type=click.Choice(list(PERMISSIONS)), help="What clients may do.")
@namesrv_option
@json_option
def update(name: str, queues: int | None, perm: str | None, namesrv: str, as_json: bool) -> None:
    """Change the number of queues or the perm of the topic NAME, on every broker that has it."""
    if queues is None and perm is None:
        raise SettingsError("nothing to change: give --queues or --perm")
    number = None if perm is None else PERMISSIONS[perm]
    lines = run_in_cluster(namesrv, lambda admin: admin.update(name, queues=queues, perm=number))
    _print_lines(lines, as_json=as_json)


@topic.command("route")
@click.argument("name")
@namesrv_option
@json_option
def route(name: str, namesrv: str, as_json: bool) -> None:
    """Show which brokers have the topic NAME, and their addresses."""
    found = run_in_cluster(namesrv, lambda admin: admin.route(name))
    rows = [
        RouteLine(
            counts.broker_name,
            broker_id,
            address,
            counts.read_count,
            counts.write_count,
            counts.perm,
        )
        for counts in found.queues
        for broker_id, address in sorted(found.addresses.get(counts.broker_name, {}).items())
    ]
    if as_json:
        print_json({"topic": name, "brokers": [row._asdict() for row in rows]})
    else:
        shown = [(*row[:-1], PERM_NAMES.get(row.perm, row.perm)) for row in rows]
        print_table(("broker", "id", "address", "read queues", "write queues", "perm"), shown)


@topic.command("stats")
@click.argument("name")
@namesrv_option
@json_option
def stats(name: str, namesrv: str, as_json: bool) -> None:
    """Show how many messages each queue of the topic NAME holds, and the time of the last one."""
    queues = run_in_cluster(namesrv, lambda admin: admin.queues(name))
    if as_json:
        messages = sum(queue.max_offset - queue.min_offset for queue in queues)
        print_json({"topic": name, "messages": messages, "queues": [queue._asdict() for queue in queues]})
        return
    rows = [
        (
            *queue[:-1],
            queue.max_offset - queue.min_offset,
            time_text(queue.last_time) if queue.last_time else "-",
        )
        for queue in queues
    ]
    print_table(("broker", "queue", "first", "end", "messages", "last message"), rows)


class SettingsLine(NamedTuple):
    """The settings of a topic on one broker."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    attributes: Mapping[str, str]


class RouteLine(NamedTuple):
    """One broker that has a topic; id 0 is a master."""

    broker_name: str
    broker_id: int
    address: str
    read_queues: int
    write_queues: int
    perm: int


def _print_lines(lines: list[TopicOnBroker], *, as_json: bool) -> None:
    if as_json:
        print_json([line._asdict() for line in lines])
    else:
        rows = [(*line[:-1], PERM_NAMES.get(line.perm, line.perm)) for line in lines]
        print_table(("topic", "broker", "read queues", "write queues", "perm"), rows)
