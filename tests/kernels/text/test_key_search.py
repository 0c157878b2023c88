import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernels.text.key_search import find_key
from cometmq.kernels.text.key_table import NO_ROW, KeyTable

keys = st.one_of(
    st.binary(max_size=40), st.binary(max_size=3), st.sampled_from([bytes(n) for n in range(20)])
)
BEFORE = b"anything"


@given(known=st.lists(keys, max_size=100), others=st.lists(keys, max_size=20))
def test_kernels_find_each_key_and_no_other(known: list[bytes], others: list[bytes]) -> None:
    table = KeyTable()
    for key in known:
        table.put(key)
    for key in (*known, *others):
        data = np.frombuffer(BEFORE + key, np.uint8)
        number = find_key(data, len(BEFORE), len(data), (table.keys, table.rows, table.slots))
        assert number == table.numbers.get(key, NO_ROW)
