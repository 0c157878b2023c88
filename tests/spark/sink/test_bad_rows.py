import json

import pytest

from cometmq.errors import MessageIllegal
from cometmq.spark.sink.bad_rows import BODY_SHOWN_MAX, COLUMN_SHOWN_MAX, LOGGED_MAX, BadRows

ERROR = MessageIllegal("too long")


def test_a_dead_letter_holds_the_reason_and_what_of_the_row_fits() -> None:
    bad = BadRows("letters", "w")
    bad.add({"body": bytes(BODY_SHOWN_MAX + 5), "tags": "x" * (COLUMN_SHOWN_MAX + 1), "flag": None}, ERROR)
    (letter,) = bad.take_letters()
    assert bad.take_letters() == []
    assert (letter.topic, letter.tags) == ("letters", "MessageIllegal")
    said = json.loads(letter.body)
    assert said["reason"] == "too long"
    assert said["body_size"] == BODY_SHOWN_MAX + 5
    assert len(said["body"]) < BODY_SHOWN_MAX * 4 / 3 + 4
    assert said["columns"] == {"tags": "x" * COLUMN_SHOWN_MAX}


def test_bodies_of_text_and_null_bodies_are_told_apart() -> None:
    bad = BadRows("letters", "w")
    bad.add({"body": "é"}, ERROR)
    bad.add({"body": None}, ERROR)
    text, null = (json.loads(letter.body) for letter in bad.take_letters())
    assert (text["body"], text["body_size"]) == ("w6k=", 2)
    assert (null["body"], null["body_size"]) == (None, 0)


def test_the_log_names_some_and_the_count_has_all(caplog: pytest.LogCaptureFixture) -> None:
    bad = BadRows(None, "w")
    for number in range(LOGGED_MAX + 5):
        bad.add({"body": b"", "queue_id": number}, ERROR)
    assert bad.count == LOGGED_MAX + 5
    assert bad.take_letters() == []
    assert len(caplog.records) == LOGGED_MAX
    assert "a row makes no message: too long: {'queue_id': '19'}" in caplog.text
