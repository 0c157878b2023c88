from cometmq.access.needs import Needs
from cometmq.kernels.frames.fields import KINDS, NAMES, columns
from cometmq.kernels.frames.rows import KEY_FIELDS
from cometmq.wire import bodies
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.requests import TO_BROKERS


def test_fields_have_columns_in_the_order_in_which_they_are_signed() -> None:
    assert list(NAMES) == sorted(NAMES)
    assert [NAMES[column] for column in columns("topic", "b")] == ["topic", "b"]


def test_each_request_has_the_header_that_the_table_of_requests_names() -> None:
    assert {code: TO_BROKERS[RequestCode(code)].header for code in KINDS} == {
        code: header for code, (_, header) in KINDS.items()
    }


def test_a_key_has_all_fields_by_which_the_guard_decides() -> None:
    needs = Needs(TO_BROKERS, "c", lambda body_type, command: bodies.decode(body_type, command.body))
    for code in set(KINDS) - {RequestCode.VIEW_MESSAGE_BY_ID}:  # it is checked by what it finds
        fields = {name: name for name in TO_BROKERS[RequestCode(code)].header.__struct_encode_fields__}
        names = needs.key(Command(code, ext_fields=fields))
        assert names and set(names) <= set(KEY_FIELDS), code
