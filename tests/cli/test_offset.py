import time

import pytest
from tests.cli.conftest import Run
from tests.live import BROKER

QUEUE = f"{BROKER}:0"


def moved(before: int, after: int, *, done: bool = True) -> dict[str, object]:
    queue = {"broker_name": BROKER, "queue_id": 0, "before": before, "after": after}
    return {"group": "g", "topic": "orders", "done": done, "queues": [queue]}


@pytest.mark.usefixtures("orders")
def test_offsets_are_shown_and_go_where_they_are_told(cometmq: Run) -> None:
    (shown,) = cometmq("offset", "show", "g", "--json").values
    assert [(queue["committed"], queue["lag"]) for queue in shown["queues"]] == [(1, 2)]
    reset = ("offset", "reset", "g", "orders", "--json")
    assert cometmq(*reset, "--to", "latest", "--dry-run").values == [moved(1, 3, done=False)]
    assert cometmq("offset", "skip", "g", "orders", "--json").values == [moved(1, 3)]
    assert cometmq(*reset, "--to", "earliest").values == [moved(3, 0)]
    assert cometmq(*reset, "--to-offset", "2", "--queue", QUEUE).values == [moved(0, 2)]
    assert cometmq(*reset, "--to", "1d").values == [moved(2, 0)]
    assert cometmq(*reset, "--to", str(int(time.time() * 1000) + 60_000)).values == [moved(0, 3)]
    assert cometmq("offset", "show", "g").out.splitlines()[2].split()[:7] == [
        *("orders", BROKER, "0", "3", "3", "3", "0"),
    ]
    out = cometmq("offset", "skip", "g", "orders", "--dry-run").out
    assert out.splitlines()[2].split() == [BROKER, "0", "3", "3"] and "nothing was changed" in out


@pytest.mark.usefixtures("orders")
def test_offsets_are_cloned(cometmq: Run) -> None:
    assert cometmq("offset", "clone", "g", "h").out == "group h has the offsets of g in orders\n"
    (shown,) = cometmq("offset", "show", "h", "--json").values
    assert shown["queues"][0]["committed"] == 1
    assert cometmq("offset", "clone", "nobody", "h").failed(3, "no group 'nobody'")


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("reset", "g", "orders"), 2, ("--to", "--to-offset")),
        (("reset", "g", "orders", "--to", "noon"), 2, ("--to", "'noon'", "2026-11-21")),
        (("reset", "g", "orders", "--to-offset", "9"), 2, ("no offset 9", "0 to 3")),
        (("reset", "g", "orders", "--to", "latest", "--queue", "0"), 2, ("--queue", "BROKER:ID")),
        (("reset", "g", "orders", "--to", "latest", "--queue", "x:0"), 2, ("cometmq topic route orders",)),
        (("reset", "g", "order", "--to", "latest"), 3, ("'order'", "nearest 'orders'")),
        (("reset", "gg", "orders", "--to", "latest"), 3, ("'gg'", "nearest 'g'")),
        (("show", "gg"), 3, ("'gg'", "nearest 'g'")),
    ],
)
def test_what_cannot_be_done_is_told_with_the_remedy(
    cometmq: Run, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    assert cometmq("offset", *arguments).failed(code, *words)
