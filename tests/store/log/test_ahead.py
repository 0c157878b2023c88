"""Making the next thing ahead: made once, dropped once, and made anew where that failed."""

import threading
from collections.abc import Iterator

import pytest

from cometmq.store.log.ahead import Ahead

WAIT_S = 60


class Workshop:
    """Builds things that know their offset, while its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.made: list[tuple[int, str]] = []
        self.dropped: list[str] = []
        self.fails = False

    def make(self, offset: int) -> str:
        assert self.gate.wait(WAIT_S)
        self.made.append((offset, threading.current_thread().name))
        if self.fails:
            raise OSError(28, "full")
        return f"thing {offset}"


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


@pytest.fixture
def ahead(shop: Workshop) -> Iterator[Ahead[str]]:
    ahead = Ahead(shop.make, shop.dropped.append, "test")
    yield ahead
    shop.gate.set()
    ahead.close()


def test_what_was_begun_is_made_in_a_thread_and_once(ahead: Ahead[str], shop: Workshop) -> None:
    ahead.begin(1)
    ahead.begin(1)
    assert ahead.take(1) == "thing 1"
    assert [(at, name.startswith("cometmq-test")) for at, name in shop.made] in ([(1, True)], [(1, False)])
    ahead.close()
    assert shop.dropped == []


def test_what_was_not_begun_is_made_by_who_takes_it(ahead: Ahead[str], shop: Workshop) -> None:
    assert ahead.take(3) == "thing 3"
    assert shop.made == [(3, threading.current_thread().name)]


def test_what_was_made_for_another_offset_is_dropped(ahead: Ahead[str], shop: Workshop) -> None:
    ahead.begin(1)
    ahead.begin(2)
    assert ahead.take(2) == "thing 2"
    ahead.close()
    assert shop.dropped == [f"thing {at}" for at, _ in shop.made if at == 1]


def test_what_failed_in_the_thread_is_tried_again_where_it_is_needed(
    ahead: Ahead[str], shop: Workshop
) -> None:
    shop.fails = True
    ahead.begin(1)
    with pytest.raises(OSError, match="full"):
        ahead.take(1)
    shop.fails = False
    assert ahead.take(1) == "thing 1"


def test_closing_drops_what_nobody_took_even_if_it_is_just_being_made(
    ahead: Ahead[str], shop: Workshop
) -> None:
    shop.gate.clear()
    ahead.begin(1)
    shop.gate.set()
    ahead.close()
    assert shop.dropped == [f"thing {at}" for at, _ in shop.made]


def test_what_was_taken_can_be_dropped_in_the_thread(ahead: Ahead[str], shop: Workshop) -> None:
    ahead.drop(ahead.take(1))
    ahead.close()
    assert shop.dropped == ["thing 1"]
