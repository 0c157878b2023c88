"""``cometmq topic``: make, list, shrink and remove topics."""

import asyncio

import click

from cometmq.admin.topics import TopicAdmin, TopicLine
from cometmq.cli.output import json_option, namesrv_option, print_json, print_table
from cometmq.cli.topic_shrink import shrink

QUEUES_MAX = 65_535
PERMISSIONS = {"read-write": 6, "write-only": 2, "read-only": 4}
PERM_NAMES = {perm: name for name, perm in PERMISSIONS.items()} | {7: "read-write, pattern", 1: "pattern"}
"""With the bit 1, topics that a send makes are made after this one."""


@click.group()
def topic() -> None:
    """Make, list, shrink and remove topics."""


topic.add_command(shrink)


@topic.command("create")
@click.argument("name")
@click.option(
    "--queues", type=click.IntRange(1, QUEUES_MAX), default=8, show_default=True, help="Per broker."
)
@click.option(
    "--perm",
    type=click.Choice(list(PERMISSIONS)),
    default="read-write",
    show_default=True,
    help="What clients may do.",
)
@namesrv_option
@json_option
def create(name: str, queues: int, perm: str, namesrv: str, as_json: bool) -> None:
    """Make the topic NAME on every broker, or change it there."""

    async def run() -> list[str]:
        async with TopicAdmin(namesrv) as admin:
            return await admin.create(name, queues=queues, perm=PERMISSIONS[perm])

    brokers = asyncio.run(run())
    if as_json:
        print_json({"topic": name, "queues": queues, "perm": PERMISSIONS[perm], "brokers": brokers})
    else:
        click.echo(f"topic {name}: {queues} queues, {perm}, on {', '.join(brokers)}")


@topic.command("delete")
@click.argument("name")
@namesrv_option
@json_option
def delete(name: str, namesrv: str, as_json: bool) -> None:
    """Remove the topic NAME, and its queues, from every broker and name server."""

    async def run() -> list[str]:
        async with TopicAdmin(namesrv) as admin:
            return await admin.delete(name)

    brokers = asyncio.run(run())
    if as_json:
        print_json({"topic": name, "deleted_from": brokers})
    else:
        click.echo(f"topic {name}: deleted from {', '.join(brokers)}")


@topic.command("list")
@namesrv_option
@json_option
def list_topics(namesrv: str, as_json: bool) -> None:
    """List the topics of all brokers."""

    async def run() -> list[TopicLine]:
        async with TopicAdmin(namesrv) as admin:
            return await admin.lines()

    lines = asyncio.run(run())
    if as_json:
        print_json([line._asdict() for line in lines])
    else:
        rows = [(*line[:-1], PERM_NAMES.get(line.perm, line.perm)) for line in lines]
        print_table(("topic", "broker", "read queues", "write queues", "perm"), rows)
