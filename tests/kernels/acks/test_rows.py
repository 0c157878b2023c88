from cometmq.kernels import plain
from cometmq.kernels.acks.rows import ACKS_MAX, ANSWER_END, POINT_SIZE, ROW_SIZE, ROWS_END, AckRows
from cometmq.kernels.ops import Ops


def test_there_is_room_for_some_acknowledgements() -> None:
    room = AckRows()
    assert room.rows.shape == (ACKS_MAX, ROW_SIZE) and ROW_SIZE == ANSWER_END + 1
    assert room.points.shape == (ACKS_MAX, POINT_SIZE) and POINT_SIZE == ROWS_END + 1


def test_each_body_of_the_operation_has_its_name(compiled: Ops) -> None:
    assert (plain.acks.body, compiled.acks.body) == ("plain", "compiled")
