from inspect import signature

import numpy as np

from cometmq.format.scan import StopReason
from cometmq.kernels.ops import Ops, Scan

OPERATIONS = [name for name, member in vars(Ops).items() if callable(member) and name[0] != "_"]


def test_both_kinds_of_operations_are_called_alike(ops: Ops) -> None:
    for name in OPERATIONS:
        declared = signature(getattr(Ops, name))
        arguments = [each for each in declared.parameters.values() if each.name != "self"]
        found = signature(getattr(ops, name)).parameters.values()
        assert [(each.name, each.kind, each.default) for each in found] == [
            (each.name, each.kind, each.default) for each in arguments
        ]


def test_a_scan_knows_how_many_records_it_has() -> None:
    columns = [np.zeros(3, np.int64)] * (len(Scan._fields) - 2)
    assert Scan._make([*columns, 0, StopReason.END]).count == 3
