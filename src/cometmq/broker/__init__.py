"""The broker: RocketMQ's requests, answered from the store."""

from cometmq.extras import require

require("broker", "a broker", "numpy", "lark")
