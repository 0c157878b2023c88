"""``cometmq group``: create, list, show and delete consumer groups."""

import asyncio

import click

from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.doctor.findings import counted
from cometmq.admin.groups import Group
from cometmq.admin.offsets import GroupProgress, lags, progress_of
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.lag import beginning_lines, print_lags
from cometmq.cli.output import json_option, namesrv_option, print_json, print_line, print_table
from cometmq.wire.bodies.body import to_plain
from cometmq.wire.bodies.group import GroupConfig
from cometmq.wire.bodies.heartbeat import MessageModel


@click.group()
def group() -> None:
    """Create, list, show and delete consumer groups."""


@group.command("list")
@namesrv_option
@json_option
def list_groups(namesrv: str, as_json: bool) -> None:
    """List the groups with their members and lag, or how far they are ahead of a queue's end."""
    print_lags(run_in_cluster(namesrv, lags), as_json=as_json)


@group.command("show")
@click.argument("name")
@namesrv_option
@json_option
def show(name: str, namesrv: str, as_json: bool) -> None:
    """Show the settings, lag, members and subscriptions of the group NAME."""
    found, progress = run_in_cluster(namesrv, lambda cluster: _fetch(cluster, name))
    if as_json:
        config = None if found.config is None else to_plain(found.config)
        print_json(
            found._asdict()
            | {
                "config": config,
                "members": [member._asdict() for member in found.members],
                "subscriptions": [one._asdict() for one in found.subscriptions],
                "differences": [one._asdict() for one in found.differences],
                "lag": sum(queue.lag for queue in progress.queues),
                "in_flight": sum(queue.in_flight for queue in progress.queues),
                "ready": sum(queue.ready for queue in progress.queues),
                "has_committed": progress.has_committed,
            }
        )
    else:
        _print(found, progress)


@group.command("member")
@click.argument("name")
@click.argument("client_id")
@namesrv_option
@json_option
def member(name: str, client_id: str, namesrv: str, as_json: bool) -> None:
    """Show the settings and queues of the member CLIENT_ID of the group NAME, as it reports them."""
    info = run_in_cluster(namesrv, lambda cluster: groups.running(cluster, name, client_id))
    queues = sorted(info.queues.items())
    if as_json:
        print_json(
            {
                "client_id": client_id,
                "properties": info.properties,
                "queues": [
                    {
                        "topic": queue.topic,
                        "broker_name": queue.broker_name,
                        "queue_id": queue.queue_id,
                        "commit_offset": at.commit_offset,
                        "waiting": at.waiting_count,
                        "locked": at.locked,
                    }
                    for queue, at in queues
                ],
            }
        )
        return
    for key, value in sorted(info.properties.items()):
        print_line(f"{key}: {value}")
    rows = [(*queue, at.commit_offset, at.waiting_count, "yes" if at.locked else "-") for queue, at in queues]
    print_table(("topic", "broker", "queue", "handled up to", "waiting", "locked"), rows)


@group.command("create")
@click.argument("name")
@click.option(
    "--retries", type=click.IntRange(0, 1_000), default=16, show_default=True,
    help="How often a message is redelivered before it becomes a dead letter.",
)  # fmt: skip
@click.option("--ordered", is_flag=True, help="Deliver in order: to RocketMQ 5 clients, by message group.")
@click.option("--no-consume", is_flag=True, help="Deliver no messages to its members for now.")
@click.option("--no-broadcast", is_flag=True, help="Refuse members that broadcast.")
@namesrv_option
@json_option
def create(
    name: str,
    retries: int,
    ordered: bool,
    no_consume: bool,
    no_broadcast: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Create the group NAME on every broker, or change it there."""
    config = GroupConfig(
        group=name,
        retry_max_times=retries,
        consume_message_orderly=ordered,
        consume_enable=not no_consume,
        consume_broadcast_enable=not no_broadcast,
    )
    brokers = run_in_cluster(namesrv, lambda cluster: groups.create(cluster, config))
    if as_json:
        print_json({"group": name, "retries": retries, "brokers": brokers})
    else:
        print_line(f"group {name}: {retries} retries, on {', '.join(brokers)}")


@group.command("delete")
@click.argument("name")
@click.option("--keep-offsets", is_flag=True, help="Keep its offsets, for a later group of this name.")
@namesrv_option
@json_option
def delete(name: str, keep_offsets: bool, namesrv: str, as_json: bool) -> None:
    """Delete the group NAME, its offsets and its retry topics from every broker; its dead letters stay."""
    brokers = run_in_cluster(namesrv, lambda cluster: groups.delete(cluster, name, keep_offsets=keep_offsets))
    if as_json:
        print_json({"group": name, "deleted_from": brokers})
    else:
        print_line(f"group {name}: deleted from {', '.join(brokers)}")


async def _fetch(cluster: ClusterAdmin, name: str) -> tuple[Group, GroupProgress]:
    return await asyncio.gather(groups.show(cluster, name), progress_of(cluster, name))


def _print(found: Group, progress: GroupProgress) -> None:
    if found.config is not None:
        state = "consumes" if found.config.consume_enable else "may not consume"
        retries = found.config.retry_max_times
        print_line(f"group {found.group}: {state}, {retries} retries, on {', '.join(found.brokers)}")
    if found.model != MessageModel.BROADCASTING:
        _print_lag(progress)
    if not found.members:
        print_line("no members now")
        return
    print_line(f"{len(found.members)} members, {found.consume_type}, {found.model}, {found.start}")
    print_line()
    rows = [(*member[:-1], ", ".join(member.brokers)) for member in found.members]
    print_table(("client id", "address", "language", "version", "brokers"), rows)
    print_line()
    print_table(("topic", "subscription", "type"), found.subscriptions)
    if found.differences:
        print_line()
        print_line("warning: members subscribe differently, so each misses messages that it subscribed to:")
        wanted = [
            (one.topic, text, ", ".join(ids)) for one in found.differences for text, ids in one.wants.items()
        ]
        print_table(("topic", "subscription", "members"), wanted)
        print_line("subscribe all members of a group to the same, or use several groups")


def _print_lag(progress: GroupProgress) -> None:
    queues = progress.queues
    for line in beginning_lines(queues):
        print_line(line)
    if any(queue.is_known for queue in queues):
        in_flight, ready = sum(one.in_flight for one in queues), sum(one.ready for one in queues)
        lag = sum(one.lag for one in queues)
        print_line(f"{counted(lag, 'message')} behind: {in_flight} in flight, {ready} ready")
