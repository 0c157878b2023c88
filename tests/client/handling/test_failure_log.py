import logging

import pytest
from msgspec.structs import replace
from tests.pulled import stored

from cometmq.client.handling.failure_log import FailureLog, again_in
from cometmq.client.handling.outcome import DeadLetter, PutOff, Retry
from cometmq.message import StoredMessage

LOG = FailureLog("billing", 16)
PAID = replace(stored(7), keys=("42", "x"), reconsume_times=2)


def later(_: StoredMessage) -> str:
    return again_in(60_000)


def test_a_failure_has_topic_group_keys_the_try_and_when_the_next_one_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    LOG.failed([PAID], ValueError("no"), later)
    (line,) = caplog.records
    assert line.getMessage() == (
        "a handler of topic 'Orders', group 'billing' failed: message message-7, keys '42', 'x', "
        "try 3 of 17: delivered again in about 1 min"
    )
    assert line.levelno == logging.WARNING and line.exc_info is not None
    assert isinstance(line.exc_info[1], ValueError)


def test_a_batch_has_one_line_that_names_its_first_messages(caplog: pytest.LogCaptureFixture) -> None:
    LOG.failed([stored(offset) for offset in range(12)], ValueError("no"), later)
    (said,) = caplog.messages
    assert said.count("try 1 of 17: delivered again") == 10 and said.endswith("; and 2 more")


def test_where_retries_have_no_limit_the_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog("billing", None).failed([PAID], ValueError("no"), later)
    assert "try 3 without limit" in caplog.text


@pytest.mark.parametrize("error", [Retry(delay_level=5), PutOff()])
def test_a_retry_that_the_handler_asked_for_is_no_warning(
    error: Retry, caplog: pytest.LogCaptureFixture
) -> None:
    LOG.failed([PAID], error, later)
    assert caplog.records == []
    with caplog.at_level(logging.INFO):
        LOG.failed([PAID], error, later)
    (line,) = caplog.records
    assert line.exc_info is None and f"raised {error!r}: message message-7" in line.getMessage()


def test_a_dead_letter_is_an_error_with_its_topic_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    reason = DeadLetter("who would pay that?")
    LOG.failed([PAID], reason, later)
    assert caplog.records == []  # it is none yet
    LOG.dead_letter(PAID, reason)
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.getMessage() == (
        "a dead letter in topic %DLQ%billing: message message-7 of topic 'Orders', keys '42', 'x', "
        "try 3 of 17; its handler raised DeadLetter('who would pay that?')"
    )


def test_the_reason_of_a_dead_letter_is_not_cut_short(caplog: pytest.LogCaptureFixture) -> None:
    LOG.dead_letter(PAID, DeadLetter("x" * 200))
    assert "x" * 200 in caplog.text


@pytest.mark.parametrize(("retries", "is_last"), [(15, False), (16, True), (17, True)])
def test_the_last_try_is_the_one_behind_the_last_retry(retries: int, is_last: bool) -> None:
    message = replace(PAID, reconsume_times=retries)
    assert LOG.is_last_try(message) is is_last
    assert not FailureLog("billing", None).is_last_try(message)


def test_what_was_broadcast_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    LOG.dropped([PAID], DeadLetter("no"))
    (said,) = caplog.messages
    assert said == (
        "dropped, as broadcasting has neither retries nor dead letters: message message-7 of topic "
        "'Orders', keys '42', 'x', group 'billing'; its handler raised DeadLetter('no')"
    )


@pytest.mark.parametrize(
    ("delay_ms", "words"), [(1_000, "1 s"), (30_000, "30 s"), (120_000, "2 min"), (7_200_000, "2 h")]
)
def test_a_delay_is_in_words(delay_ms: int, words: str) -> None:
    assert again_in(delay_ms) == f"delivered again in about {words}"
