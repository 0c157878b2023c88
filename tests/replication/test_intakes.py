"""What a slave does with what it gets without a controller; over sockets: ``test_slave.py``."""

from pathlib import Path

import pytest
from tests.broker.conftest import SMALL
from tests.store.conftest import new_message

from cometmq.errors import LogDiverged
from cometmq.replication.frames import encode_frames, encode_heartbeat, encode_report
from cometmq.replication.intakes import ClassicIntake
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

SETTINGS = StoreSettings(**SMALL)


async def test_what_comes_is_appended_by_whole_records_and_reported(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "m", SETTINGS) as master:
        master.append([new_message(), new_message()])
        data = bytes(run(master.readings.log_bytes(0, 1 << 20)) or b"")
    with MessageStore.open(tmp_path / "s", SETTINGS) as store:
        intake = ClassicIntake(store)
        assert intake.is_level and intake.begin() == intake.report() == encode_report(0)
        sent = b"".join(encode_frames(0, data, 100))
        await intake.received(sent[:-20])
        assert intake.report() == encode_report(len(data) // 2)
        await intake.received(sent[-20:] + encode_heartbeat(len(data)))
        assert intake.report() == encode_report(len(data))
        with pytest.raises(LogDiverged):
            await intake.received(b"".join(encode_frames(9, b"x", 100)))
