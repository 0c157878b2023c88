from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError, StoreDamaged
from cometmq.format import layout
from cometmq.replication.epochs import (
    NO_EPOCH,
    EpochFile,
    EpochList,
    consistent_point,
    decode_epochs,
    encode_epochs,
)
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/store")
PATH = layout.epoch_file_path(ROOT)
SEEN = [
    (EpochList.of((1, 0)), b"1\n1725254278\n1-0\n"),
    (EpochList.of((1, 0), (2, 714)), b"2\n1441919218\n1-0\n2-714\n"),
]
"""What brokers of RocketMQ 5.5.0 wrote."""


@st.composite
def epoch_lists(draw: st.DrawFn, sizes: int = 6) -> EpochList:
    epochs = sorted(draw(st.sets(st.integers(0, 20), max_size=sizes)))
    starts = sorted(draw(st.lists(st.integers(0, 50), min_size=len(epochs), max_size=len(epochs))))
    return EpochList.of(*zip(epochs, starts, strict=True))


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.mark.parametrize(("epochs", "data"), SEEN)
def test_files_are_written_as_rocketmq_wrote_them(epochs: EpochList, data: bytes) -> None:
    assert encode_epochs(epochs) == data
    assert decode_epochs(data) == epochs


@given(epoch_lists())
def test_what_is_encoded_is_decoded(epochs: EpochList) -> None:
    assert decode_epochs(encode_epochs(epochs)) == epochs


def test_a_checksum_of_0_is_not_checked() -> None:
    assert decode_epochs(b"2\n0\n1-0\n7-7000\n") == EpochList.of((1, 0), (7, 7000))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no list of epochs in 0 bytes"),
        (b"one\n0\n1-0\n", "no list of epochs in 10 bytes"),
        (b"1\n0\n1-0-0\n", "no list of epochs"),
        (b"2\n0\n1-0\n", "1 epochs, expected 2"),
        (b"1\n1725254279\n1-0\n", "CRC 1725254278 of the epochs, expected 1725254279"),
        (b"2\n0\n2-0\n1-5\n", "epoch 1: must be a number from 3"),
        (b"2\n0\n1-5\n2-4\n", "epoch 2 starts at 4: must be 5 or more"),
    ],
)
def test_a_broken_file_is_an_error_that_says_what_is_wrong(data: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        decode_epochs(data)


@given(epoch_lists(), st.integers(-1, 60), st.integers(0, 60))
def test_each_byte_belongs_to_the_last_epoch_that_starts_at_or_before_it(
    epochs: EpochList, offset: int, log_end: int
) -> None:
    found = epochs.at(offset)
    covering = [
        entry for entry in epochs.entries if entry.start_offset <= offset < epochs.end_of(entry.epoch)
    ]
    assert covering == ([] if found is None else [found])
    for entry in epochs.entries:
        assert epochs.find(entry.epoch) == entry
        assert epochs.end_of(entry.epoch, 100) >= entry.start_offset
    assert epochs.end_of(epochs.last_epoch, log_end) == log_end


@given(epoch_lists(), st.integers(0, 60))
def test_cuts_keep_what_the_rest_of_the_log_belongs_to(epochs: EpochList, offset: int) -> None:
    before, behind = epochs.cut_from(offset), epochs.cut_before(offset)
    for at in range(offset):
        assert before.at(at) == epochs.at(at)
    for at in range(offset, 61):
        assert behind.at(at) == epochs.at(at)
    assert all(entry.start_offset < offset for entry in before.entries)


def test_a_new_master_begins_its_epoch_at_the_end_of_its_log() -> None:
    assert EpochList().begin(1, 0) == EpochList.of((1, 0))
    assert EpochList.of((1, 0)).begin(4, 714) == EpochList.of((1, 0), (4, 714))


def test_an_epoch_in_which_nothing_was_written_stays_beside_the_next() -> None:
    assert EpochList.of((1, 0)).begin(2, 0) == EpochList.of((1, 0), (2, 0))


def test_a_master_that_is_started_again_continues_its_epoch_unless_it_may_have_lost_records() -> None:
    epochs = EpochList.of((1, 0), (2, 714))
    assert epochs.begin(2, 954) == epochs
    assert epochs.begin(2, 900, is_whole=False) == EpochList.of((1, 0), (2, 900))
    assert epochs.begin(2, 700) == EpochList.of((1, 0), (2, 700)), "the log lacks the epoch's start"


def test_no_broker_becomes_master_of_an_epoch_that_is_over() -> None:
    with pytest.raises(FormatError, match="epoch 1 is over: this broker knows epoch 2"):
        EpochList.of((2, 10)).begin(1, 20)


def test_what_was_seen_of_a_rejoining_master_is_found() -> None:
    own, other = EpochList.of((1, 0)), EpochList.of((1, 0), (2, 714))
    assert consistent_point(own, 714, other, 954) == 714
    assert consistent_point(own, 900, other, 954) == 714, "what was not replicated is cut"
    assert consistent_point(EpochList.of((3, 0)), 10, other, 954) is None
    assert consistent_point(EpochList.of((2, 700)), 710, other, 954) is None, "it starts elsewhere"


def test_records_of_two_masters_are_not_taken_for_those_of_one() -> None:
    # Both begin at 0, as nothing was written in epoch 1 at first; then its old master wrote alone.
    assert consistent_point(EpochList.of((1, 0)), 100, EpochList.of((1, 0), (2, 0)), 200) == 0


def test_epochs_behind_the_own_end_do_not_count_as_equal_bytes() -> None:
    assert consistent_point(EpochList.of((1, 0), (2, 50)), 40, EpochList.of((1, 0), (2, 50)), 90) == 40


class Replica:
    """A log as a list of the epoch that wrote each byte, and the byte's own number: the simple model."""

    def __init__(self) -> None:
        self.bytes: list[tuple[int, int]] = []
        self.epochs = EpochList()

    def lead(self, epoch: int, count: int) -> None:
        self.epochs = self.epochs.begin(epoch, len(self.bytes))
        self.bytes += [(epoch, n) for n in range(count)]

    def follow(self, master: "Replica", count: int) -> None:
        if self.epochs.entries:
            point = consistent_point(self.epochs, len(self.bytes), master.epochs, len(master.bytes))
            assert point is not None
            del self.bytes[point:]
            self.epochs = self.epochs.cut_from(point)
        begin = len(self.bytes)
        assert self.bytes == master.bytes[:begin], "the logs are equal up to the consistent point"
        for offset in range(begin, min(begin + count, len(master.bytes))):
            entry = master.epochs.at(offset)
            assert entry is not None
            if self.epochs.last_epoch < entry.epoch:
                self.epochs = self.epochs.append(*entry)
            self.bytes.append(master.bytes[offset])


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.lists(st.integers(0, 20), min_size=3, max_size=3)),
        max_size=12,
    )
)
def test_replicas_that_follow_any_masters_agree_up_to_the_consistent_point(
    reigns: list[tuple[int, int, list[int]]],
) -> None:
    """Masters are elected at will, with any log that begins as the first one's: the point is always right."""
    replicas = [Replica() for _ in range(3)]
    replicas[0].lead(0, 1)
    for replica in replicas[1:]:
        replica.follow(replicas[0], 1)
    for epoch, (leader, written, copied) in enumerate(reigns, 1):
        replicas[leader].lead(epoch, written)
        for replica, count in zip(replicas, copied, strict=True):
            if replica is not replicas[leader]:
                replica.follow(replicas[leader], count)


def test_a_saved_list_is_loaded(disk: MemoryDisk) -> None:
    file = EpochFile(disk, ROOT)
    assert file.load() == EpochList()
    for epochs, data in SEEN:
        file.save(epochs)
        assert disk.load(PATH) == data
        assert EpochFile(disk, ROOT).load() == epochs
    assert disk.load(layout.backup_path(PATH)) == SEEN[0][1]


def test_the_backup_is_read_if_the_file_is_broken_or_missing(
    disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    file = EpochFile(disk, ROOT)
    for epochs, _ in SEEN:
        file.save(epochs)
    disk.save(PATH, b"")
    assert EpochFile(disk, ROOT).load() == SEEN[0][0]
    assert "its backup is used" in caplog.text
    disk.remove(PATH)
    assert EpochFile(disk, ROOT).load() == SEEN[0][0]


def test_a_list_that_cannot_be_read_is_not_taken_for_none(disk: MemoryDisk) -> None:
    disk.make_directory(ROOT)
    disk.save(PATH, b"1\n7\n1-0\n")
    with pytest.raises(
        StoreDamaged, match=r"CRC 1725254278 of the epochs, expected 7.*mqadmin getBrokerEpoch"
    ):
        EpochFile(disk, ROOT).load()


def test_an_empty_list_leaves_no_file_that_a_broker_could_read(disk: MemoryDisk) -> None:
    file = EpochFile(disk, ROOT)
    for epochs, _ in SEEN:
        file.save(epochs)
    file.save(EpochList())
    assert not disk.exists(PATH) and not disk.exists(layout.backup_path(PATH))
    assert EpochFile(disk, ROOT).load().last_epoch == NO_EPOCH
