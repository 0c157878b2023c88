"""The topics and queues that pops read: see ``cluster.pop.choice``."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.topics import PERM_READ, Topics
from cometmq.cluster.pop.choice import RANDOM_MAX, RetryRules, queue_order
from cometmq.format.pop.names import RetryFlag, flag_of, retry_topic
from cometmq.wire.bodies import TopicConfig


class Source(NamedTuple):
    """A topic that a pop reads, and the ids of the queues that it visits, in their order."""

    topic: str
    retry_flag: RetryFlag
    queue_ids: Sequence[int]


class PopSources:
    """Chooses what pops read.

    Attributes:
        random: where the numbers come from.
    """

    def __init__(self, topics: Topics, settings: PopSettings) -> None:
        self.random = Random()  # noqa: S311  it spreads load
        self._topics = topics
        self._rules = RetryRules(
            settings.pop_from_retry_probability,
            settings.enable_retry_topic_v2,
            settings.retrieve_message_from_pop_retry_topic_v1,
        )

    def of_pop(self, topic: TopicConfig, group: str, queue_id: int) -> list[Source]:
        """Return what a pop reads: the topic and the group's retry topic of it, if there is one."""
        random = self._random()
        normal = self._normal(topic, queue_id, random)
        retry = self._retry(normal, group, self._rules.flag(random), random)
        if retry is None:
            return [normal]
        return [retry, normal] if self._rules.is_retry_first(random) else [normal, retry]

    def of_pop_in_order(self, topic: TopicConfig, queue_id: int) -> list[Source]:
        """Return what a pop in order reads: the topic only, whose queues are blocked instead of retried."""
        return [self._normal(topic, queue_id, self._random())]

    def of_peek(self, topic: TopicConfig, group: str, queue_id: int) -> list[Source]:
        """Return what a peek reads: every fifth the retry topic first."""
        random = self._random()
        normal = self._normal(topic, queue_id, random)
        retry = self._retry(normal, group, self._rules.flag(random), random)
        if retry is None:
            return [normal]
        return [retry, normal] if random % 5 == 0 else [normal, retry]

    def of_notification(self, topic: TopicConfig, group: str, queue_id: int) -> list[Source]:
        """Return where messages for a pop may be: in the topic, and in the retry topics of either name."""
        random = self._random()
        normal = self._normal(topic, queue_id, random)
        retries = [self._retry(normal, group, flag, random) for flag in (RetryFlag.V2, RetryFlag.V1)]
        return [normal, *filter(None, retries)]

    def _random(self) -> int:
        return int(self.random.random() * RANDOM_MAX)  # at a third of what ``randrange`` costs

    def _normal(self, topic: TopicConfig, queue_id: int, random: int) -> Source:
        ids = queue_order(topic.read_queue_count, random) if queue_id < 0 else (queue_id,)
        return Source(topic.topic, flag_of(topic.topic), ids)

    def _retry(self, normal: Source, group: str, flag: RetryFlag, random: int) -> Source | None:
        """Return the group's retry topic of a topic; None if there is none, or that is one itself."""
        if normal.retry_flag is not RetryFlag.NONE:
            return None
        config = self._topics.find(retry_topic(normal.topic, group, flag))
        if config is None or not config.perm & PERM_READ:
            return None
        return Source(config.topic, flag, queue_order(config.read_queue_count, random))
