"""Options, by their names."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from cometmq.faststream.config import RocketMQBrokerConfig, SubscriberOptions, check_names
from cometmq.faststream.groups import GroupOptions


def test_an_unknown_option_is_named_with_those_that_there_are() -> None:
    check_names({"tags": "paid", "max_workers": 4}, SubscriberOptions, "a subscriber")
    with pytest.raises(TypeError, match=r"a subscriber has no option 'tag'; it has group, tags, sql, "):
        check_names({"tag": "paid"}, SubscriberOptions, "a subscriber")


def test_the_options_of_a_group_are_options_of_a_subscriber() -> None:
    assert set(GroupOptions._fields) <= SubscriberOptions.__annotations__.keys()


def test_each_configuration_has_consumers_of_its_own() -> None:
    assert RocketMQBrokerConfig().consumers is not RocketMQBrokerConfig().consumers
