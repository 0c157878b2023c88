"""Drop the copies of messages that were sent again."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from cometmq.format.properties import IDEMPOTENCE_KEY

NEEDED = ("topic", "queue_id", "queue_offset", "store_host", "properties")
_KEY = "cometmq_idempotence_key"


def drop_duplicates(frame: DataFrame, *, within_watermark: bool = False) -> DataFrame:
    """Keep one message of each idempotence key in each topic, and all messages that have none.

    Args:
        frame: messages read by the source, with the columns in ``NEEDED``.
        within_watermark: for streams: drop keys that are older than the frame's watermark. Otherwise a
            stream keeps each key for ever.
    """
    place = f.concat_ws("/", *(f.col(name).cast("string") for name in NEEDED[:-1]))
    keyed = frame.withColumn(_KEY, f.coalesce(f.col("properties")[IDEMPOTENCE_KEY], place))
    columns = ["topic", _KEY]  # as in a broker, a key identifies a message within its topic
    kept = keyed.dropDuplicatesWithinWatermark(columns) if within_watermark else keyed.dropDuplicates(columns)
    return kept.drop(_KEY)
