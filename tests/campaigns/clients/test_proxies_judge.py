from tests.campaigns.clients.proxies_judge import Handling, History

HIDDEN_MS = 10


def handled(number: int, send: int, at_ms: int) -> Handling:
    return Handling(number, f"{number}-{send}", at_ms, at_ms + HIDDEN_MS)


def history(*handlings: Handling, sent: int = 1) -> History:
    made = History()
    made.sent.update(range(sent))
    for handling in handlings:
        made.handle(handling)
    return made


def test_what_was_handled_once_is_right() -> None:
    verdict = history(handled(0, 1, 0), handled(1, 1, 0), sent=2).judge()
    assert verdict.is_right and (verdict.sent, verdict.handled) == (2, 2)
    assert verdict.stored_twice == verdict.unconfirmed == 0


def test_what_nobody_got_is_lost() -> None:
    verdict = history(handled(0, 1, 0), sent=2).judge()
    assert verdict.lost == [1] and not verdict.is_right


def test_what_a_send_that_failed_had_stored_is_a_duplicate_with_a_reason() -> None:
    verdict = history(handled(0, 1, 0), handled(0, 2, 1)).judge()
    assert verdict.is_right and verdict.stored_twice == 1


def test_what_was_not_acknowledged_in_time_may_come_again() -> None:
    verdict = history(handled(0, 1, 0), handled(0, 1, HIDDEN_MS)).judge()
    assert verdict.is_right and verdict.unconfirmed == 1


def test_what_comes_before_its_time_or_although_it_was_acknowledged_has_no_reason() -> None:
    first, early, late = (handled(0, 1, at_ms) for at_ms in (0, HIDDEN_MS - 1, HIDDEN_MS))
    assert history(first, early).judge().unexplained == [early]
    acknowledged = history(first, late)
    acknowledged.confirm(first)
    assert acknowledged.judge().unexplained == [late]
