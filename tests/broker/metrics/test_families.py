from tests.broker.metrics.reference import REFERENCE

from cometmq.broker.metrics.families import FAMILIES


def test_names_types_and_labels_are_those_of_a_rocketmq_broker() -> None:
    ours = {
        family.name: (family.kind.value, frozenset(family.labels))
        for family in FAMILIES
        if family.is_reference
    }
    assert len(ours) >= 20
    assert ours == {name: tuple(REFERENCE[name]) for name in ours}


def test_no_name_is_used_twice_and_only_counters_end_in_total() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    assert {name for name in names if name.endswith("_total")} == {
        family.name for family in FAMILIES if family.kind == "counter"
    }
