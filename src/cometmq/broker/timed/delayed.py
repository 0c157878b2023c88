"""How a delayed message waits: in the schedule topic, with the topic it is for among its properties.

Level n waits in queue n - 1. What comes out again keeps the properties that it waited with, as RocketMQ's
does. (RocketMQ: HookUtils.java, ScheduleMessageService.java.)
"""

from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.properties import DELAY, REAL_QUEUE_ID, REAL_TOPIC, TIMER_ASKS
from cometmq.format.property_numbers import number_or
from cometmq.format.record import Record
from cometmq.store.append import NewMessage, once_more


def delayed(message: NewMessage, levels: DelayLevels) -> NewMessage:
    """Give the message as it waits; itself if it asks for no delay.

    Raises MessageIllegal if its properties get too long.
    """
    named = properties.decode(message.properties)
    level = levels.nearest(number_or(DELAY, named.get(DELAY), 0))
    if not level:
        return message
    for name in TIMER_ASKS:  # a level counts more
        named.pop(name, None)
    named |= {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    return message._replace(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties.encode(named))


def due(record: Record) -> NewMessage | None:
    """Give a message that has waited as it is for its consumers; None if it does not say for whom.

    Raises MessageIllegal if what it says makes no sense.
    """
    named = properties.decode(record.properties)
    topic, queue_id = named.get(REAL_TOPIC), named.get(REAL_QUEUE_ID)
    if topic is None or queue_id is None:
        return None
    if not queue_id.isdecimal():
        raise MessageIllegal(f"property {REAL_QUEUE_ID} = {queue_id[:20]!r} is no queue")
    return once_more(record)._replace(topic=topic, queue_id=int(queue_id))
