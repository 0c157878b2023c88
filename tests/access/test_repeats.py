from collections.abc import Callable

from cometmq.access.directory import Directory
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.repeats import KEY_LENGTH_MAX, KEYS_MAX, Repeats
from cometmq.access.users import User
from cometmq.wire.acl import signing_key

HERE = "127.0.0.1"


def repeats() -> tuple[Repeats, Directory]:
    directory = Directory()
    directory.create(User("ann", "ann's"))
    return Repeats(directory), directory


def test_a_key_is_known_from_its_address_with_what_its_user_signs_with() -> None:
    known, _ = repeats()
    assert b"key" not in known.known_from(HERE)
    known.add(HERE, b"key", "ann")
    assert known.known_from(HERE) == {b"key": signing_key("ann's")}
    assert not known.known_from("127.0.0.2")


def test_each_change_of_users_or_policies_forgets_all() -> None:
    known, directory = repeats()
    entry = PolicyEntry.parse("Topic:t", ["Pub"], None, "Allow")
    changes: list[Callable[[], None]] = [
        lambda: directory.create(User("bob", "bob's")),
        lambda: directory.put_acl(Acl("ann", (entry,))),
        lambda: directory.update("bob", password="another"),
        lambda: directory.delete("bob"),
    ]
    for change in changes:
        known.add(HERE, b"key", "ann")
        change()
        assert not known.known_from(HERE)


def test_nothing_is_known_of_a_user_that_is_not_or_by_a_long_key() -> None:
    known, _ = repeats()
    known.add(HERE, b"key", "eve")
    known.add(HERE, b"k" * (KEY_LENGTH_MAX + 1), "ann")
    assert not known.known_from(HERE)


def test_the_number_of_keys_is_bounded_over_all_addresses() -> None:
    known, _ = repeats()
    for number in range(KEYS_MAX):
        known.add(f"10.0.{number // 250}.{number % 250}", b"key", "ann")
        known.add(HERE, b"%d" % (number % 2), "ann")  # again and again
    assert set(known.known_from(HERE)) == {b"0", b"1"}
    assert not known.known_from("10.0.0.0")
    assert sum(map(len, known._known.values())) <= KEYS_MAX
