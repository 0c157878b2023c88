from cometmq.client.consumer.outcome import Retry


def test_a_retry_says_when() -> None:
    assert (Retry().delay_level, Retry().suspend_ms, str(Retry())) == (0, None, "again later")
    assert str(Retry(delay_level=3)) == "again after delay level 3"
