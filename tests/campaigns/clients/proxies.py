"""What gRPC clients lose while their proxy and their broker are killed, and what idle ones cost.

    python -m tests.campaigns proxies [--kills 20] [--idle 30] [--seed N]

Two clients send, and two simple consumers receive and acknowledge, through one proxy in front of one broker.
Half of the kills (SIGKILL) are of the proxy, the others of the broker; each is started again at once. What a
client is not told that it was stored, it sends again. In the end each message that was confirmed must have
been handled. A message that is handled once more must have a reason: it was stored twice, as the answer to
the first send was lost; or no acknowledgement was confirmed in its time.

Then 1,000 clients with a telemetry stream each, that send a heartbeat every ten seconds, and 200 long polls
are idle for some seconds (``benches.bench_proxy``): the proxy may take 5 % of a core and 200 MB for them.
"""

import asyncio
import logging
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from benches.idle_clients import POLLS, STREAMS, Idle, create_quiet_topic, idle
from tests.campaigns.clients.proxies_campaign import Campaign, Servers, Victim
from tests.campaigns.clients.proxies_judge import Verdict
from tests.campaigns.kit.options import add_numbers

COLUMNS: Final = "| killed | times | sends again after, at most | acknowledgements, at most |"
SHARE_MAX: Final = 0.05
MEMORY_MB_MAX: Final = 200
SHOWN: Final = 2_000


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=20, idle=30)


def main(options: Namespace) -> list[str]:
    """Run the campaign, then the idle clients."""
    logging.disable(logging.WARNING)  # that connections are cut is what this is about
    wrong = []
    if options.kills:
        verdict = asyncio.run(_kill(options.kills, options.seed))
        if not verdict.is_right:
            wrong.append(str(verdict)[:SHOWN])
    if options.idle:
        cost = asyncio.run(_idle(options.idle))
        print(f"{STREAMS:,} idle streams, {POLLS} long polls: {cost}")
        if cost.share >= SHARE_MAX or cost.memory_mb >= MEMORY_MB_MAX:
            wrong.append(f"{SHARE_MAX:.0%} of a core and {MEMORY_MB_MAX} MB are allowed")
    return wrong


async def _kill(kills: int, seed: int) -> Verdict:
    """Run the campaign; print a line for each kill, and what came of all."""
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(Path(directory), seed)
        async for kill in campaign.run(kills):
            print(
                f"kill {len(campaign.kills)}: {kill.victim.value}, sends again after {kill.sends_s:.1f} s, "
                f"acknowledgements after {kill.acks_s:.1f} s",
                flush=True,
            )
    print(f"\n{COLUMNS}\n|---" + "|---:" * 3 + "|")
    for victim in Victim:
        of_victim = [kill for kill in campaign.kills if kill.victim is victim]
        sends_s = max((kill.sends_s for kill in of_victim), default=0.0)
        acks_s = max((kill.acks_s for kill in of_victim), default=0.0)
        print(f"| {victim.value} | {len(of_victim)} | {sends_s:.1f} s | {acks_s:.1f} s |")
    verdict = campaign.history.judge()
    rows = {
        "messages whose sends were confirmed": verdict.sent,
        "sends that were not, and were repeated": campaign.load.failed_sends,
        "messages lost": len(verdict.lost),
        "messages handled": verdict.handled,
        "… once more, as they were stored twice": verdict.stored_twice,
        "… once more, as no acknowledgement was confirmed in time": verdict.unconfirmed,
        "… once more, for no reason": len(verdict.unexplained),
        "acknowledgements that were not confirmed": campaign.load.failed_acks,
    }
    print("\n| | |\n|---|---:|")
    print("\n".join(f"| {name} | {number:,} |" for name, number in rows.items()), flush=True)
    return verdict


async def _idle(seconds: int) -> Idle:
    """Measure what idle clients cost a proxy of their own."""
    with tempfile.TemporaryDirectory() as directory:
        servers = Servers(Path(directory))
        async with servers.running():
            await create_quiet_topic(servers.name_server)
            return await idle(servers.address, servers.proxy_pid, seconds)
