from msgspec.structs import replace
from tests.pulled import stored

from cometmq.client.idempotence.key import key_by

MESSAGE = replace(stored(0), properties={"UNIQ_KEY": "unique", "order": "7"}, keys=("ann", "bob"))
PLAIN = stored(0)


def test_keys_are_what_was_asked_for() -> None:
    assert key_by("message_id")(MESSAGE) == "unique"
    assert key_by("keys")(MESSAGE) == "ann bob"
    assert key_by("order")(MESSAGE) == "7"
    assert key_by(lambda message: message.body.decode())(MESSAGE) == "0"


def test_a_message_without_it_has_its_unique_id() -> None:
    for by in ("message_id", "keys", "order", lambda _: None):
        assert key_by(by)(PLAIN) == "message-0"


def test_a_message_without_unique_id_keeps_its_first_id_when_it_comes_again() -> None:
    again = replace(PLAIN, message_id="offset-9", properties={"ORIGIN_MESSAGE_ID": "offset-0"})
    assert key_by("message_id")(again) == "offset-0"
