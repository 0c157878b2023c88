from cometmq.kernels import plain
from cometmq.kernels.ops import Ops


def test_only_the_compiled_operations_have_those_on_sends(compiled: Ops) -> None:
    assert compiled.sends is not None
    assert hasattr(compiled.sends, "take")
    assert plain.sends is None
