from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.transaction_ids import HalfMessageId, parse_transaction_id
from cometmq.proxy.outcomes import Failure

offsets = st.integers(0, 2**63 - 1)


@given(
    st.text("ab-_0", min_size=1),
    offsets,
    offsets,
    st.text("é a0", min_size=1),
)
def test_an_id_survives_both_ways(broker_name: str, half: int, physical: int, unique_id: str) -> None:
    one = HalfMessageId(broker_name, half, physical, unique_id)
    assert parse_transaction_id(str(one)) == one


@given(st.text())
def test_any_text_is_an_id_or_refused(text: str) -> None:
    with suppress(Failure):
        assert parse_transaction_id(text).unique_id


@pytest.mark.parametrize("text", ["", "  ", "0102FC00000001091B0B199BB700000000", "djIgYiAwIDAgeA=="])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_transaction_id(text)
    assert caught.value.code == pb.INVALID_TRANSACTION_ID
