"""The store directory of a broker that does not run: its pointers, files and contents. Nothing is written."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.extras import require

require("broker", "the console of a store directory")

# ruff: noqa: E402  the store needs numpy

from starlette.responses import Response

from cometmq.console.visit import Visit
from cometmq.errors import NotFound, SettingsError
from cometmq.io.files import Disk
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect import InspectRow, Kind, Summary, open_file, summarize
from cometmq.store.inspect.status import StoreStatus, status_of
from cometmq.store.verify import Verified, verify

FILES_MAX: Final = 2_000
"""Most files in the list; ``find`` narrows it."""
ROWS: Final = 50
"""Rows of a file on a page."""
VERIFIED_BYTES_MAX: Final = 8 * 1024**3
"""Longest log that a page checks, which takes about a second a gigabyte."""
FINDINGS_MAX: Final = 200

_verifying: Final = asyncio.Semaphore(1)


class StoreFile(NamedTuple):
    """A file of the store; ``path`` is below the store's directory."""

    path: str
    size: int


class FilePage(NamedTuple):
    """Some rows of a file; ``following`` is where to go on, None at the end."""

    kind: str
    size: int
    base_offset: int
    rows: list[InspectRow]
    following: int | None


async def overview(visit: Visit) -> Response:
    """Show the state, the pointers and the topics of the store."""
    status, summary = await asyncio.to_thread(_read, visit.store)
    return visit.page("store.html", here="/", found=status, summary=summary)


async def files(visit: Visit) -> Response:
    """List the store's files."""
    part = visit.text("find")
    found = await asyncio.to_thread(_list, visit.store, part)
    shown = found[:FILES_MAX]
    return visit.page(
        "store_files.html", here="/files", files=shown, total=len(found), find=part, most=FILES_MAX
    )


async def file(visit: Visit) -> Response:
    """Show a file field by field."""
    name, at = visit.part("path"), visit.text("at")
    place = visit.number("at", 0) if at else None
    shown = await asyncio.to_thread(_rows, path_in(visit.store, name), place)
    return visit.page("store_file.html", here="/files", name=name, at=at, shown=shown)


async def check(visit: Visit) -> Response:
    """Show the page of the check."""
    return visit.page("store_check.html", here="/verify", verified=None, findings_max=FINDINGS_MAX)


async def run_check(visit: Visit) -> Response:
    """Check each byte of the store, one check at a time, and show what was found."""
    status, _ = await asyncio.to_thread(_read, visit.store)
    size = status.pointers.written - status.pointers.begin
    if size > VERIFIED_BYTES_MAX:
        raise SettingsError(
            f"the log has {size} bytes, and a page checks at most {VERIFIED_BYTES_MAX}: "
            f"run cometmq store verify {visit.store}"
        )
    async with _verifying:
        verified: Verified = await asyncio.to_thread(verify, visit.store)
    return visit.page("store_check.html", here="/verify", verified=verified, findings_max=FINDINGS_MAX)


def path_in(store: Path, name: str) -> Path:
    """Return the path of a file of the store. Raises NotFound for one that is not there, or elsewhere."""
    root = store.resolve()
    try:
        path = (root / name).resolve()
        is_there = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError):  # no name of a file: it is too long, or has a null byte
        is_there = False
    if not is_there:
        raise NotFound(f"no file {name[:200]!r} in {store}")
    return path


def _read(root: Path) -> tuple[StoreStatus, Summary]:
    with StoreDirectory(root) as store:
        return status_of(store), summarize(store)


def _list(root: Path, part: str) -> list[StoreFile]:
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    named = ((path.relative_to(root).as_posix(), path.stat().st_size) for path in found)
    return sorted(StoreFile(name, size) for name, size in named if part in name)


def _rows(path: Path, at: int | None) -> FilePage:
    with open_file(Disk(), path) as opened:
        rows: Iterator[InspectRow] = opened.rows(at)
        shown = [_kept(row) for row in islice(rows, ROWS)]
        following = next(rows, None)
        place = None
        if following is not None and opened.kind is Kind.COMMIT_LOG:
            place = opened.base_offset + following.position
        elif following is not None:
            named = {field.name: field.value for field in following.fields}
            place = named.get("queue_offset", named.get("number"))
        return FilePage(opened.kind.value, opened.size, opened.base_offset, shown, place)


def _kept(row: InspectRow) -> InspectRow:
    """Return a row whose values are texts: the file's map is closed before the page is rendered."""
    fields = [field._replace(value=str(field.value)[:2_000], text=field.text[:2_000]) for field in row.fields]
    return row._replace(fields=fields)
