"""Check the small files: the checkpoint, and the broker's tables in JSON."""

from pathlib import Path

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.checkpoint import SIZE, Checkpoint
from cometmq.format.java import fastjson
from cometmq.io.regular import NotRegularFile
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.folders import files_in
from cometmq.store.tables import is_table_name
from cometmq.store.verify.findings import Findings


def check_checkpoint(store: StoreDirectory, last_time: int, findings: Findings) -> None:
    """Check the checkpoint; ``last_time`` is the store time of the last record, ms."""
    path = layout.checkpoint_path(store.root)
    remedy = "remove it: a start after a kill then reads the whole log, and creates it again"
    if not store.layer.exists(path):
        if store.log.chain.starts:
            findings.note(path, "is not there", "a start after a kill will read the whole log")
        return
    try:
        size = store.layer.size(path)
    except NotRegularFile as error:
        findings.damage(path, None, None, error.strerror, remedy)
        return
    if size != SIZE:
        findings.damage(path, None, None, f"has {size} bytes, expected {SIZE}", remedy)
    if store.checkpoint is None:
        return
    for place, (name, value) in enumerate(store.checkpoint._asdict().items()):
        if value < 0:
            findings.damage(path, place * 8, 8, f"{name} is {value}", remedy)
    vouched = max(store.checkpoint[:2])
    if vouched > last_time:
        findings.note(
            path, f"says that all up to {vouched} ms is on the disk, the last record is of {last_time} ms"
        )


def check_tables(store: StoreDirectory, findings: Findings) -> None:
    """Check that the broker's tables, and their backups, can be read."""
    directory = layout.config_dir(store.root)
    for name in filter(is_table_name, files_in(store.layer, directory, is_table_name)):
        _check_table(store, directory / name, findings)


def _check_table(store: StoreDirectory, path: Path, findings: Findings) -> None:
    if path.suffix == layout.BACKUP_SUFFIX:
        remedy = "the broker writes it again when the table changes"
    else:
        remedy = f"the broker reads {layout.backup_path(path).name} in its place; copy that over it"
    try:
        data = store.layer.load(path)
    except NotRegularFile as error:
        findings.damage(path, None, None, error.strerror, remedy)
        return
    if not data.strip():
        findings.damage(path, None, None, "is empty", remedy)
        return
    try:
        value = fastjson.loads(data)
    except FormatError as error:
        findings.damage(path, None, None, str(error), remedy)
        return
    if not isinstance(value, dict):
        findings.damage(path, None, None, "holds no JSON object", remedy)


assert Checkpoint._fields[:2] == ("physic_msg_timestamp", "logics_msg_timestamp")
