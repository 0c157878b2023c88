from tests.campaigns.clients.soak_ledger import Ledger


def test_what_waits_came_again_or_came_too_early_is_counted() -> None:
    ledger = Ledger()
    ledger.note_handled(3)  # before its sender heard of it
    for number in (1, 2, 3):
        ledger.note_sent(number, number, "a 0")
    assert (ledger.waiting(), ledger.waiting(sent_before=2)) == (2, 1)
    assert (ledger.waiting_in(), ledger.waiting_in(sent_before=1)) == ("2 in a 0", "")
    ledger.note_handled(1)
    ledger.note_handled(1)
    assert (ledger.handled, ledger.duplicates, ledger.waiting()) == (3, 1, 1)
    for queue_offset in (0, 1, 0, 1, 2, 4):
        ledger.note_in_order("a 0", queue_offset)
    assert ledger.disordered == 1
