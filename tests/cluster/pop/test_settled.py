from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.pop.settled import SettledPoints

OFFSETS = st.sets(st.integers(0, 4), min_size=1)
FEW_OFFSETS = st.sets(st.integers(0, 1), min_size=1)


def settled(**limits: int) -> SettledPoints[str]:
    return SettledPoints[str](**limits)


def due(points: SettledPoints[str], *places: int) -> list[int]:
    """Return what is delivered of what comes due."""
    return [place for place in places if not points.come_due(place)]


def test_a_check_point_whose_messages_are_all_acknowledged_is_not_delivered_nor_are_they() -> None:
    points = settled()
    points.open("p", (0, 1, 2), 10)
    points.open("q", (0,), 20)
    points.acknowledge("p", (0, 2), 30)
    points.acknowledge("p", (1,), 40)
    assert due(points, 10, 20, 30, 40) == [20]
    assert due(points, 10, 30, 40) == [10, 30, 40], "each comes due once"


def test_a_check_point_that_is_settled_before_it_waits_is_passed_over_with_all_that_belongs_to_it() -> None:
    points = settled()
    points.open("p", (0, 1), 10)
    points.acknowledge("p", (0,), 20)
    points.open("q", (0,), 30)
    assert points.needless((10,)) == set()
    points.acknowledge("p", (1,), 40)
    assert points.needless((10, 20, 30)) == points.needless((10, 20, 30)) == {10, 20}, "nothing has changed"
    points.pass_over((10, 20))
    assert points.needless((10, 20, 30, 40)) == {40}
    points.pass_over((40,))
    assert points.needless((10, 20, 30, 40)) == set()
    assert due(points, 10, 20, 30, 40) == [10, 20, 30, 40]


def test_a_check_point_is_open_until_it_is_settled_or_delivered() -> None:
    points = settled()
    points.open("p", (0, 1), 10)
    points.open("q", (0,), 20)
    points.acknowledge("p", (0,), 30)
    assert [points.is_open(place) for place in (10, 20, 30)] == [True, True, False]
    points.acknowledge("p", (1,), 40)
    assert not points.is_open(10)
    assert due(points, 20) == [20]
    assert not points.is_open(20)


def test_of_one_that_waits_all_acknowledgements_wait_too() -> None:
    points = settled()
    points.open("p", (0, 1), 10)
    points.acknowledge("p", (0,), 20)
    assert points.needless((10,)) == set()
    points.acknowledge("p", (1,), 30)
    assert points.needless((20, 30)) == set(), "after a kill it comes with them"
    assert due(points, 10, 20, 30) == []


def test_one_that_comes_due_before_is_delivered_with_all_that_belongs_to_it() -> None:
    points = settled()
    points.open("p", (0, 1), 10)
    points.acknowledge("p", (0,), 20)
    assert due(points, 10) == [10]
    points.acknowledge("p", (1,), 30)
    assert due(points, 20, 30) == [20, 30]


def test_an_acknowledgement_of_no_known_check_point_is_delivered() -> None:
    points = settled()
    points.acknowledge("p", (0,), 10)
    assert due(points, 10) == [10]


def test_a_check_point_that_is_stored_twice_is_one() -> None:
    points = settled()
    points.open("p", (0,), 10)
    points.open("p", (0, 1), 20)
    points.acknowledge("p", (0,), 30)
    points.acknowledge("p", (1,), 40)
    assert due(points, 10, 20, 30, 40) == []


def test_of_one_that_is_stored_twice_neither_is_dropped_once_one_has_been_delivered() -> None:
    points = settled()
    points.open("p", (0,), 10)
    points.open("p", (1,), 20)
    assert due(points, 10) == [10]
    points.acknowledge("p", (0, 1), 30)
    assert due(points, 20, 30) == [20, 30]


def test_what_is_too_much_to_remember_is_delivered() -> None:
    points = settled(open_max=1, settled_max=2)
    for place, point in enumerate("pq"):
        points.open(point, (0,), place)
        points.acknowledge("q", (0,), 10 + place)
    points.acknowledge("p", (0,), 20)
    points.open("r", (0,), 30)
    points.acknowledge("r", (0,), 40)
    assert due(points, 1, 0, 10, 11, 20, 30, 40) == [1, 10, 11, 30, 40]


@given(st.lists(st.tuples(st.sampled_from("oad"), st.sampled_from("pqr"), OFFSETS)))
def test_what_comes_back_is_the_same_as_if_all_were_delivered(
    steps: list[tuple[str, str, set[int]]],
) -> None:
    points = settled()
    stored: dict[str, list[tuple[str, int, set[int]]]] = defaultdict(list)
    waiting: dict[str, int] = {}
    delivered: set[int] = set()
    for place, (step, point, offsets) in enumerate(steps):
        if step == "o" and point not in stored:
            points.open(point, offsets, place)
            stored[point].append(("ck", place, offsets))
            waiting[point] = place
        elif step == "a" and point in stored:
            points.acknowledge(point, offsets, place)
            stored[point].append(("ack", place, offsets))
        elif step == "d" and point in waiting:
            delivered.update(due(points, waiting.pop(point)))
    delivered.update(due(points, *waiting.values()))
    delivered.update(
        due(points, *(place for of in stored.values() for kind, place, _ in of if kind == "ack"))
    )
    for of_point in stored.values():
        (_, check_point, named), *acks = of_point
        expected = named.difference(*(offsets for _, _, offsets in acks))
        known = (offsets for _, place, offsets in acks if place in delivered)
        found = named.difference(*known) if check_point in delivered else set[int]()
        assert found == expected


@given(st.lists(st.tuples(st.sampled_from("oaaww"), st.sampled_from("pq"), FEW_OFFSETS)), st.booleans())
def test_what_comes_back_is_the_same_as_if_all_had_waited_and_after_a_kill_too(
    steps: list[tuple[str, str, set[int]]], is_killed: bool
) -> None:
    points = settled()
    stored: dict[str, list[tuple[int, set[int]]]] = {}  # the check point, then its acknowledgements
    to_wait: list[int] = []
    waiting: list[int] = []
    for place, (step, point, offsets) in enumerate(steps):
        if step == "o" and point not in stored:
            points.open(point, offsets, place)
            stored[point] = [(place, offsets)]
            to_wait.append(place)
        elif step == "a" and point in stored:
            points.acknowledge(point, offsets, place)
            stored[point].append((place, offsets))
            to_wait.append(place)
        elif step == "w":
            count = 2 * len(offsets)
            needless = points.needless(to_wait[:count])
            waiting += [one for one in to_wait[:count] if one not in needless]
            points.pass_over(needless)
            del to_wait[:count]
    if is_killed:
        points = settled()
    delivered = {*due(points, *waiting, *to_wait)}
    for (check_point, named), *acks in stored.values():
        expected = named.difference(*(offsets for _, offsets in acks))
        known = (offsets for place, offsets in acks if place in delivered)
        found = named.difference(*known) if check_point in delivered else set[int]()
        assert found == expected


def test_what_is_left_of_a_check_point_is_known_behind_its_end() -> None:
    points = settled()
    assert points.left("p") is None
    points.open("p", (0, 1, 2), 10)
    points.acknowledge("p", (0,), 20)
    assert points.left("p") == {1, 2}
    assert due(points, 10) == [10]
    points.acknowledge("p", (2,), 30)
    assert points.left("p") == {1}, "it came due, and is not revived yet"
    points.close("p")
    assert points.left("p") == set()
    points.open("q", (5,), 40)
    points.acknowledge("q", (5,), 50)
    assert points.left("q") == set(), "it is settled"


def test_what_is_left_of_check_points_that_are_not_followed_is_known_as_long_as_there_is_room() -> None:
    points = settled(open_max=1, closed_max=4)
    points.open("p", (0,), 10)
    for place, name in enumerate("abcdef", 1):
        points.open(name, (place,), 10 + place)
    assert points.left("p") == {0}
    assert [points.left(name) for name in "abcdef"] == [None, None, None, {4}, {5}, {6}]
    points.acknowledge("f", (6,), 30)
    assert points.left("f") == set()
