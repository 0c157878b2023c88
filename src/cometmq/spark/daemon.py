"""Run PySpark's daemon, which forks the workers of a session's tasks, with workers that end quietly.

``session`` names this module in Spark's setting ``spark.python.daemon.module``; ``worker`` has the reason.
What is imported here is there in each worker.
"""

from pyspark import daemon

from cometmq.spark import worker


def main() -> None:
    """Fork workers as Spark asks for them, until Spark ends."""
    worker.quieten_daemon(daemon)
    daemon.manager()


if __name__ == "__main__":
    main()
