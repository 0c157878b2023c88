from inspect import signature
from typing import get_type_hints

import numpy as np

from cometmq.format.record import FIELDS, INT, LONG, UNSIGNED
from cometmq.format.scan import StopReason
from cometmq.io import memory
from cometmq.kernels import arrays, plain
from cometmq.kernels.arrays import Ints, Longs
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


def test_pages_are_those_that_the_file_layer_asks_the_system_about() -> None:
    assert arrays.PAGE_SIZE == memory.PAGE_SIZE


def test_each_body_has_its_name(compiled: Ops) -> None:
    assert (plain.body, compiled.body) == ("plain", "compiled")


def test_a_scan_knows_how_many_records_it_has() -> None:
    columns = [np.zeros(3, np.int64)] * (len(Scan._fields) - 2)
    assert Scan._make([*columns, 0, StopReason.END]).count == 3


def test_a_scan_has_each_number_of_the_record_in_its_width() -> None:
    widths = {INT: Ints, UNSIGNED: Ints, LONG: Longs}
    expected = {name: widths[kind] for name, kind in FIELDS.items() if kind in widths and name != "magic"}
    declared = get_type_hints(Scan)
    assert {name: declared[name] for name in expected} == expected
