"""Check an application's message and encode its properties for storing; ``stored`` is the reverse.

Source: RocketMQ: Validators.java, MessageDecoder.java (messageProperties2String).
"""

from typing import Final

from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.layout import valid_topic
from cometmq.message import Message

FLAG_LIMIT: Final = 2**31


def check(message: Message, *, body_size_max: int) -> None:
    """Check that a message can be stored and read back unchanged. Raises MessageIllegal or IllegalName."""
    valid_topic(message.topic)
    if not message.body:
        raise MessageIllegal("body is empty: RocketMQ stores no message without a body")
    if len(message.body) > body_size_max:
        raise MessageIllegal(f"body of {len(message.body)} bytes: at most {body_size_max} are allowed")
    if not -FLAG_LIMIT <= message.flag < FLAG_LIMIT:
        raise MessageIllegal(f"flag {message.flag}: must be a signed number of 32 bits")
    if message.delay_level < 0:
        raise MessageIllegal(f"delay level {message.delay_level}: give 0 for none, or a level from 1 on")
    if message.delay_ms < 0 or message.deliver_time < 0:
        raise MessageIllegal(f"{_delays(message)}: give 0 for none, or more")
    if bool(message.delay_level) + bool(message.delay_ms) + bool(message.deliver_time) > 1:
        raise MessageIllegal(f"{_delays(message)}: give one of them")
    if message.sharding_key == "":
        raise MessageIllegal("sharding key is empty: give None for none")
    if message.tags and not _can_be_filtered(message.tags):
        raise MessageIllegal(
            f"tags {message.tags!r}: no filter can name them; give one tag, without blanks around it, || in "
            "it, or * alone, and put what else there is into properties"
        )
    for name, value in message.properties.items():
        if name in properties.RESERVED or name.startswith(properties.TRANSIENT_PREFIX):
            raise MessageIllegal(f"property {name!r} is RocketMQ's own: choose another name")
        if not name or not value:
            raise MessageIllegal(f"property {name!r} = {value!r}: neither name nor value may be empty")
    if not message.keys:
        return
    if any(not key or properties.KEY_SEPARATOR in key for key in message.keys):
        raise MessageIllegal(f"keys {message.keys!r}: a key must not be empty nor hold a blank")


def properties_of(message: Message, own: str) -> bytes:
    """Encode the properties string of a message that was checked.

    Args:
        own: properties that the sender adds, as a properties string; none of them is among the message's.

    Raises MessageIllegal if the string is too long, or a property holds a separator.
    """
    by_name = dict(message.properties)
    if message.keys:
        by_name[properties.KEYS] = properties.KEY_SEPARATOR.join(message.keys)
    if message.delay_level:
        by_name[properties.DELAY] = str(message.delay_level)
    if message.delay_ms:
        by_name[properties.TIMER_DELAY_MS] = str(message.delay_ms)
    if message.deliver_time:
        by_name[properties.TIMER_DELIVER_MS] = str(message.deliver_time)
    if message.sharding_key is not None:
        by_name[properties.SHARDING_KEY] = message.sharding_key
    if message.tags:
        by_name[properties.TAGS] = message.tags
    return properties.encode_text(properties.text_of(by_name) + own) if by_name else own.encode()


def _can_be_filtered(tag: str) -> bool:
    """Check that a tag expression can name a tag: clients split it at ``||`` and strip blanks."""
    return tag == tag.strip() and tag != "*" and "||" not in tag


def _delays(message: Message) -> str:
    return (
        f"delay level {message.delay_level}, delay_ms {message.delay_ms}, deliver_time {message.deliver_time}"
    )
