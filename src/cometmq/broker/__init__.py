"""The broker: RocketMQ's requests, answered from the store.

Page: ``docs/internals/broker.md``.
"""

from cometmq.extras import require

require("broker", "a broker", "numpy", "lark")
