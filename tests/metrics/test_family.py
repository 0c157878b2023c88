from cometmq.metrics.family import Family, FamilyKind, Values

SENT = Family("x_sent_total", FamilyKind.COUNTER, ("topic",), "messages", "messages sent")


def test_values_are_kept_by_labels_and_added_to() -> None:
    values = Values()
    values.set(SENT, 3, "T")
    values.add(SENT, 2, "T")
    values.add(SENT, 5, "U")
    assert values.series == {SENT: {("T",): 5, ("U",): 5}}


def test_families_of_rocketmq_are_known_by_their_names() -> None:
    assert not SENT.is_reference and SENT._replace(name="rocketmq_x").is_reference
