"""The page of codes: its table is made of the calls, what our proxy answers, and the differences."""

import re
from collections.abc import Sequence
from typing import Final

from tests.grpc_codes.case import Case
from tests.grpc_codes.differences import DIFFERENCES, number_of, rocketmqs
from tests.kit.pages import ROOT as CHECKOUT

from cometmq.proxy import messaging_pb2 as pb

PAGE: Final = CHECKOUT / "docs" / "reference" / "grpc-codes.md"
TABLE: Final = re.compile(r"^\| call \|.*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)
REASONS: Final = re.compile(r"^1\. .*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)


def table(cases: Sequence[Case]) -> str:
    """Build the table of some calls; RocketMQ's code is in it where it differs."""
    lines = ["| call | with | code | RocketMQ's | why |", "|---|---|---|---|---|"]
    for case in sorted(cases, key=lambda case: case.rpc):
        number = number_of(case)
        theirs = "" if number is None else _shown(rocketmqs(case))
        cells = [f"`{case.rpc}`", _escaped(case.note), _shown(case.outcome), theirs, str(number or "")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def reasons() -> str:
    """Build the list of reasons."""
    return "".join(f"{number}. {one.reason}.\n" for number, one in enumerate(DIFFERENCES, 1))


def written(text: str, cases: Sequence[Case]) -> str:
    """Return the page's text with its table and reasons made anew."""
    return REASONS.sub(lambda _: reasons(), TABLE.sub(lambda _: table(cases), text))


def _shown(outcome: str) -> str:
    """Return an outcome with its number, if it is a code."""
    if outcome.startswith("gRPC "):
        return f"gRPC: `{outcome.removeprefix('gRPC ')}`"
    return f"{pb.Code.Value(outcome)} `{outcome}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
