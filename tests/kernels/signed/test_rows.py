from cometmq.access.needs import Needs
from cometmq.kernels.signed.rows import CODES, KEY_END, KEY_FIELDS, ROW_SIZE, ROWS_MAX, SignedRows
from cometmq.wire import bodies
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.requests import TO_BROKERS


def test_there_is_room_for_some_requests() -> None:
    room = SignedRows()
    assert room.rows.shape == (ROWS_MAX, ROW_SIZE) and ROW_SIZE == KEY_END + 1


def test_a_key_has_all_fields_by_which_the_guard_decides() -> None:
    needs = Needs(TO_BROKERS, "c", lambda body_type, command: bodies.decode(body_type, command.body))
    for code in CODES:
        fields = {name: name for name in TO_BROKERS[RequestCode(code)].header.__struct_encode_fields__}
        names = needs.key(Command(code, ext_fields=fields))
        assert names and set(names) <= set(KEY_FIELDS), code
