from collections.abc import Callable

from cometmq.access.directory import Directory
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.repeats import KEY_LENGTH_MAX, KEYS_MAX, Repeats
from cometmq.access.users import User
from cometmq.wire.acl import signature_of

HERE = "127.0.0.1"
SIGNATURE = signature_of("ann's", b"headbody").encode()


def repeats() -> tuple[Repeats, Directory]:
    directory = Directory()
    directory.create(User("ann", "ann's"))
    return Repeats(directory), directory


def test_a_known_key_from_its_address_is_allowed_with_the_right_signature() -> None:
    known, _ = repeats()
    assert not known.has(HERE, b"key", SIGNATURE, b"head", b"body")
    known.add(HERE, b"key", "ann")
    assert known.has(HERE, b"key", SIGNATURE, b"head", b"body")
    assert known.has(HERE, b"key", memoryview(SIGNATURE), memoryview(b"head"), b"body")
    assert not known.has("127.0.0.2", b"key", SIGNATURE, b"head", b"body")
    assert not known.has(HERE, b"other", SIGNATURE, b"head", b"body")
    for wrong in (SIGNATURE[:-1], b"", "\u00fc".encode(), signature_of("bob's", b"headbody").encode()):
        assert not known.has(HERE, b"key", wrong, b"head", b"body")
    assert not known.has(HERE, b"key", SIGNATURE, b"head", b"bodi")


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
        assert not known.has(HERE, b"key", SIGNATURE, b"head", b"body")


def test_nothing_is_known_of_a_user_that_is_not_or_by_a_long_key() -> None:
    known, _ = repeats()
    known.add(HERE, b"key", "eve")
    known.add(HERE, b"k" * (KEY_LENGTH_MAX + 1), "ann")
    assert not known._secrets


def test_the_number_of_keys_is_bounded() -> None:
    known, _ = repeats()
    for number in range(KEYS_MAX + 1):
        known.add(HERE, b"%d" % number, "ann")
    assert len(known._secrets) == 1
    assert known.has(HERE, b"%d" % KEYS_MAX, SIGNATURE, b"head", b"body")
