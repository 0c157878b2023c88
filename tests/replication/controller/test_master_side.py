import pytest

from cometmq.errors import ProtocolError
from cometmq.replication.controller.frames import MasterData, MasterHandshake, SlaveHandshake, SlaveReport
from cometmq.replication.controller.master_side import LogBounds, MasterSide, Span
from cometmq.replication.epochs import EpochEntry, EpochList

EPOCHS = EpochList.of((1, 0), (2, 714))
LOG = LogBounds(0, 954, 800)


def met(handshake: SlaveHandshake, reported: int, log: LogBounds = LOG) -> MasterSide:
    side = MasterSide()
    assert side.received(handshake, EPOCHS, log) == MasterHandshake(log.end, EPOCHS)
    assert side.received(SlaveReport(reported), EPOCHS, log) is None
    return side


def spans(side: MasterSide, log: LogBounds = LOG, size_max: int = 32_768) -> list[Span]:
    return list(iter(lambda: side.next_span(EPOCHS, log, size_max), None))


def test_an_empty_slave_gets_all_cut_at_the_ends_of_epochs_and_files() -> None:
    assert spans(met(SlaveHandshake(2), 0)) == [
        Span(0, 714, EpochEntry(1, 0)),
        Span(714, 86, EpochEntry(2, 714)),
        Span(800, 154, EpochEntry(2, 714)),
    ]


def test_a_frame_is_no_longer_than_allowed() -> None:
    assert [span.size for span in spans(met(SlaveHandshake(2), 0), size_max=500)] == [500, 214, 86, 154]


def test_an_empty_slave_may_want_the_last_file_only() -> None:
    assert [span.offset for span in spans(met(SlaveHandshake(2, sync_from_last_file=True), 0))] == [800]


def test_an_empty_slave_begins_where_the_log_does() -> None:
    log = LogBounds(800, 954, 800)
    assert [span.offset for span in spans(met(SlaveHandshake(2), 0, log), log)] == [800]


def test_a_slave_goes_on_where_it_ends_and_acknowledges() -> None:
    side = met(SlaveHandshake(2), 714)
    assert side.ack == 714
    assert [span.offset for span in spans(side)] == [714, 800]
    side.received(SlaveReport(800), EPOCHS, LOG)
    assert side.ack == 800


def test_a_heartbeat_has_the_next_offset_and_what_is_confirmed() -> None:
    side = met(SlaveHandshake(2), 954)
    assert side.heartbeat(EPOCHS, 940) == MasterData(954, EpochEntry(2, 714), 940)
    assert MasterSide().heartbeat(EPOCHS, 0) is None


def test_a_log_without_records_and_epochs_has_heartbeats_only() -> None:
    side, empty = MasterSide(), LogBounds(0, 0, 800)
    side.received(SlaveHandshake(2), EpochList(), empty)
    side.received(SlaveReport(0), EpochList(), empty)
    assert side.next_span(EpochList(), empty) is None
    assert side.heartbeat(EpochList(), 0) == MasterData(-1, EpochEntry(-1, 0), 0)


def test_a_second_handshake_begins_anew() -> None:
    side = met(SlaveHandshake(2), 714)
    assert side.received(SlaveHandshake(2), EPOCHS, LOG) is not None
    assert side.ack is None and side.next_span(EPOCHS, LOG) is None


@pytest.mark.parametrize("offset", [955, -5])
def test_a_slave_that_is_elsewhere_is_refused_with_the_remedy(offset: int) -> None:
    side = MasterSide()
    side.received(SlaveHandshake(2), EPOCHS, LOG)
    with pytest.raises(ProtocolError, match=f"wants data from {offset}, but the log is from 0 to 954; empty"):
        side.received(SlaveReport(offset), EPOCHS, LOG)


def test_a_slave_that_acknowledges_what_was_not_sent_is_refused() -> None:
    side = met(SlaveHandshake(2), 714)
    with pytest.raises(ProtocolError, match="slave 2 reports 800, but was sent nothing behind 714"):
        side.received(SlaveReport(800), EPOCHS, LOG)


def test_a_slave_that_reports_less_than_before_is_refused() -> None:
    side = met(SlaveHandshake(2), 954)
    with pytest.raises(ProtocolError, match="slave 2 reports 714 after 954: its log has lost its end"):
        side.received(SlaveReport(714), EPOCHS, LOG)
    assert side.ack == 954


def test_a_report_before_the_handshake_is_refused() -> None:
    with pytest.raises(ProtocolError, match="before its handshake"):
        MasterSide().received(SlaveReport(0), EPOCHS, LOG)


def test_data_of_no_epoch_is_refused() -> None:
    side, epochs = MasterSide(), EpochList.of((1, 500))
    side.received(SlaveHandshake(2), epochs, LOG)
    with pytest.raises(ProtocolError, match="wants data from 0, which is of no epoch"):
        side.received(SlaveReport(0), epochs, LOG)
