import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.errors import ProtocolError, StoreError
from cometmq.replication.controller.frames import (
    MasterData,
    MasterFrames,
    MasterHandshake,
    SlaveFrames,
    SlaveHandshake,
    SlaveReport,
)
from cometmq.replication.controller.master_side import LogBounds, MasterSide
from cometmq.replication.controller.slave_side import (
    AppendBytes,
    Confirm,
    SaveEpochs,
    SendReport,
    SlaveAction,
    SlaveSide,
    TruncateLog,
)
from cometmq.replication.epochs import EpochEntry, EpochList

MASTER = EpochList.of((1, 0), (2, 714))


def report(offset: int) -> SendReport:
    return SendReport(SlaveReport(offset))


def level(epochs: EpochList = MASTER, end: int = 954) -> SlaveSide:
    side = SlaveSide(epochs, end)
    side.received(MasterHandshake(954, MASTER))
    return side


def test_a_new_slave_reports_its_end_and_takes_over_epochs_with_the_data() -> None:
    side = SlaveSide(EpochList(), 0)
    assert side.handshake(2) == SlaveHandshake(2).encode()
    assert side.received(MasterHandshake(954, MASTER)) == [report(0)]
    assert side.received(MasterData(0, EpochEntry(1, 0), 900, b"x" * 714)) == [
        SaveEpochs(EpochList.of((1, 0))),
        AppendBytes(0, b"x" * 714),
        Confirm(714),
        report(714),
    ]
    assert side.received(MasterData(714, EpochEntry(2, 714), 800, b"y" * 240)) == [
        SaveEpochs(MASTER),
        AppendBytes(714, b"y" * 240),
        Confirm(800),
        report(954),
    ]


def test_a_slave_that_has_no_more_than_its_master_keeps_all() -> None:
    side = SlaveSide(EpochList.of((1, 0)), 714)
    assert side.received(MasterHandshake(954, MASTER)) == [SaveEpochs(EpochList.of((1, 0))), report(714)]


def test_what_the_master_does_not_have_is_truncated_before_the_report() -> None:
    side = SlaveSide(EpochList.of((1, 0), (3, 800)), 900)
    assert side.received(MasterHandshake(954, MASTER)) == [TruncateLog(714)]
    assert side.truncated() == [SaveEpochs(EpochList.of((1, 0))), report(714)]


def test_an_empty_log_has_nothing_to_truncate_whatever_its_epochs() -> None:
    side = SlaveSide(EpochList.of((7, 0)), 0)
    assert side.received(MasterHandshake(954, MASTER)) == [SaveEpochs(EpochList()), report(0)]


def test_logs_without_a_common_epoch_are_left_to_the_operator() -> None:
    side = SlaveSide(EpochList.of((7, 0)), 100)
    with pytest.raises(
        StoreError, match=r"epochs 7 from 0, to 100.*1 from 0, 2 from 714, to 954.*empty this"
    ):
        side.received(MasterHandshake(954, MASTER))


def test_a_heartbeat_confirms_and_is_not_reported() -> None:
    assert level().received(MasterData(954, EpochEntry(2, 714), 940)) == [Confirm(940)]
    assert level().received(MasterData(954, EpochEntry(1, 0), 940)) == [Confirm(940)], "RocketMQ's first one"


def test_a_heartbeat_of_a_new_epoch_is_kept() -> None:
    assert level().received(MasterData(954, EpochEntry(3, 954), 0)) == [
        SaveEpochs(MASTER.append(3, 954)),
        Confirm(0),
    ]


def test_the_heartbeat_of_an_empty_master_changes_nothing() -> None:
    side = SlaveSide(EpochList(), 0)
    side.received(MasterHandshake(0, EpochList()))
    assert side.received(MasterData(-1, EpochEntry(-1, 0), 0)) == [Confirm(0)]


def test_rocketmqs_last_data_of_an_epoch_comes_with_the_next_ones_number() -> None:
    side = SlaveSide(EpochList.of((1, 0)), 600)
    side.received(MasterHandshake(954, MASTER))
    actions = side.received(MasterData(600, EpochEntry(2, 714), 0, bytes(114)))
    assert actions[:2] == [SaveEpochs(MASTER), AppendBytes(600, bytes(114))]


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (MasterData(955, EpochEntry(2, 714), 0, b"x"), "data is at 955, but the log ends at 954"),
        (MasterData(954, EpochEntry(1, 0), 0, b"x"), "contradicts this log's epochs"),
        (MasterData(954, EpochEntry(2, 700), 0, b"x"), "contradicts this log's epochs"),
        (MasterHandshake(954, MASTER), "a second handshake"),
    ],
)
def test_what_does_not_continue_the_log_is_refused(frame: MasterHandshake | MasterData, what: str) -> None:
    with pytest.raises(ProtocolError, match=what):
        level().received(frame)


def test_data_before_the_report_is_refused() -> None:
    with pytest.raises(ProtocolError, match="before the slave's first report"):
        SlaveSide(MASTER, 954).received(MasterData(954, EpochEntry(2, 714), 0, b"x"))


class Node:
    """A broker's log in memory: bytes that name their epoch, and its epochs."""

    def __init__(self) -> None:
        self.log = b""
        self.epochs = EpochList()
        self.saved = EpochList()

    @property
    def bounds(self) -> LogBounds:
        return LogBounds(0, len(self.log), 16)

    def lead(self, epoch: int, size: int) -> None:
        self.epochs = self.epochs.begin(epoch, len(self.log))
        self.log += bytes([epoch]) * size

    def follow(self, master: "Node", frames_max: int, piece: int) -> None:
        """Connect, copy some frames through both decoders, and lose the connection."""
        side, other = SlaveSide(self.epochs, len(self.log)), MasterSide()
        to_master, to_slave = SlaveFrames(), MasterFrames()
        sent = side.handshake(2)
        for _ in range(frames_max + 2):
            back = b""
            for frame in to_master.receive(sent):
                answer = other.received(frame, master.epochs, master.bounds)
                back += answer.encode() if answer else b""
            if (span := other.next_span(master.epochs, master.bounds, 7)) is not None:
                data = master.log[span.offset : span.offset + span.size]
                assert set(data) <= {span.entry.epoch}, "a frame is of one epoch"
                back += MasterData(span.offset, span.entry, len(master.log), data).encode()
            sent = b""
            for begin in range(0, len(back), piece):
                for received in to_slave.receive(back[begin : begin + piece]):
                    sent += self.carry_out(side, side.received(received))

    def carry_out(self, side: SlaveSide, actions: list[SlaveAction]) -> bytes:
        sent = b""
        for action in actions:
            match action:
                case TruncateLog(offset):
                    self.log = self.log[:offset]
                    sent += self.carry_out(side, side.truncated())
                case SaveEpochs(epochs):
                    self.epochs = epochs
                case AppendBytes(offset, data):
                    assert offset == len(self.log)
                    self.log += data
                case Confirm(offset):
                    assert offset <= len(self.log)
                case SendReport(found):
                    assert found.max_offset == len(self.log)
                    sent += found.encode()
        return sent


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 6)), max_size=8),
    st.integers(1, 50),
)
def test_slaves_become_equal_to_any_master_whatever_they_had(
    reigns: list[tuple[int, int, int]], piece: int
) -> None:
    nodes = [Node() for _ in range(3)]
    nodes[0].lead(1, 1)
    for node in nodes[1:]:
        node.follow(nodes[0], 10, piece)
    for epoch, (leader, size, frames) in enumerate(reigns, 2):
        nodes[leader].lead(epoch, size)
        for node in nodes:
            if node is not nodes[leader]:
                node.follow(nodes[leader], frames, piece)
                assert nodes[leader].log.startswith(node.log)
    last = nodes[reigns[-1][0] if reigns else 0]
    for node in nodes:
        if node is not last:
            node.follow(last, 100, piece)
            assert node.log == last.log
            assert all(node.epochs.at(at) == last.epochs.at(at) for at in range(len(node.log)))
