from cometmq.kernels.acks.rows import ACKS_MAX, AckRows


def test_there_is_room_for_some_acknowledgements() -> None:
    room = AckRows()
    assert len(room.acks) == len(room.points) == ACKS_MAX
