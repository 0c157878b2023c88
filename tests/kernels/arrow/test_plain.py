import numpy as np
import pyarrow as pa
import pytest

from cometmq.kernels.arrow import plain as plain_arrow
from cometmq.kernels.ops import Ops


def test_a_schema_has_the_columns_in_their_order() -> None:
    schema = plain_arrow.schema(["body", "topic"])
    assert (schema.names, schema.types) == (["body", "topic"], [pa.binary(), pa.string()])


def test_a_column_that_does_not_exist_is_an_error(ops: Ops) -> None:
    with pytest.raises(KeyError, match="colour"):
        ops.arrow(b"", ops.scan(b"", base_offset=0), np.empty(0, np.int64), ["colour"])
