"""Read live topics in Spark: the source "rocketmq" with name servers instead of a path."""
