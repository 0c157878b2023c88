"""Without FastStream."""

from tests.kit.programs import TRY_ALL, without

STATEMENT = "from cometmq.faststream import RocketMQBroker"


def test_the_error_names_the_extra() -> None:
    found = without({"faststream"}, TRY_ALL, [STATEMENT])
    remedy = "cometmq.faststream needs faststream: pip install 'cometmq[faststream]'"
    assert found == {STATEMENT: ["MissingExtra", remedy]}
