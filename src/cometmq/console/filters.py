"""The filters that a visitor writes: tags, or SQL92."""

from cometmq.filter import sql92, tag


def check_filter(tags: str, sql: str) -> None:
    """Check a filter before brokers get it; one at least is empty. Raises FormatError or IllegalArgument.

    RocketMQ's brokers answer a pull by a filter that they cannot compile as if it had none.
    """
    tag.check_filter(tags, sql or None)
    if sql:
        sql92.compile(sql)
