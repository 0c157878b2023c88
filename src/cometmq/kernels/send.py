"""The compiled operations on sends: a ``sends.SendOps``."""

from cometmq.kernels.send_answers import answer
from cometmq.kernels.send_frames import read
from cometmq.kernels.send_records import encode

__all__ = ["answer", "encode", "read"]
