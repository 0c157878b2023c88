from cometmq.format.transaction import ENDED_TAG, encode_offsets, ended_offsets


def test_op_messages_name_half_messages_by_their_offsets() -> None:
    assert encode_offsets([5, 16]) == b"5,16,"
    assert ended_offsets(ENDED_TAG, b"5,16,") == [5, 16]
    assert ended_offsets(ENDED_TAG, b"7") == [7], "as brokers before 5.0 write it"
    assert ended_offsets("other", b"5,") == ended_offsets(None, b"5,") == []
    assert ended_offsets(ENDED_TAG, b"5,\xff,-1,x,6,") == [5, 6]
