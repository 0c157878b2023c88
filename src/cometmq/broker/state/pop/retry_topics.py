"""Which retry topics belong to the pops of a group, and of a topic: they are deleted with either.

``%RETRY%a_b_T`` can be that of group ``a`` and topic ``b_T``, of group ``a_b`` and topic ``T``, or of group
``a_b_T`` and whatever it pulls. What is known of groups, topics and offsets decides; where that leaves a
doubt, the topic stays. (RocketMQ deletes these topics with their topic only, by their names.)
"""

from collections.abc import Callable

from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.topics import Topics
from cometmq.errors import StoreNotWritable
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.pop.names import RetryFlag, flag_of, normal_topic, retry_topic


class PopRetryTopics:
    """Finds the retry topics of pops by what a broker knows of groups, topics and offsets."""

    def __init__(self, topics: Topics, groups: Groups, offsets: Offsets) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    def of_topic(self, topic: str) -> list[str]:
        """Return the existing retry topics in which groups get messages of a topic again."""
        names = [
            (retry_topic(topic, group, flag), group)
            for group in sorted(self._offsets.groups_of(topic))
            for flag in (RetryFlag.V1, RetryFlag.V2)
        ]
        return [name for name, group in names if self._topics.find(name) and self._belongs(name, group)]

    def of_group(self, group: str) -> list[str]:
        """Return the existing retry topics in which a group gets messages of any topic again."""
        begins = tuple(retry_topic("", group, flag) for flag in (RetryFlag.V1, RetryFlag.V2))
        names = [topic.topic for topic in self._topics if topic.topic.startswith(begins)]
        return sorted(name for name in names if self._belongs(name, group))

    def delete(self, names: list[str], action: Callable[[StoreNotWritable | None], None]) -> None:
        """Delete retry topics; call ``action`` once the name servers know, or with the disk's error."""
        if names:
            self._topics.delete(names)
            self._topics.when_published(names, action)
        else:
            action(None)

    def _belongs(self, name: str, group: str) -> bool:
        """Check whether a retry topic that is named like one of a group is no other group's."""
        if flag_of(name) is RetryFlag.V2:
            return True  # no group's name has a plus
        rest = name.removeprefix(RETRY_PREFIX)
        if self._groups.find(rest) is not None:
            return False  # it is where that group's messages come back
        if readers := self._offsets.groups_of(name):  # at least the one whose messages came back
            return readers == {group}
        parts = rest.split("_")
        readings = {("_".join(parts[:end]), "_".join(parts[end:])) for end in range(1, len(parts))}
        known = {owner for owner, topic in readings if self._groups.find(owner) and self._topics.find(topic)}
        return known <= {group} and self._topics.find(normal_topic(name, group)) is not None
