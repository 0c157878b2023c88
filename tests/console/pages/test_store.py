import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.console.conftest import Browser, browsing, text_of

from cometmq.console.pages import store as module
from cometmq.console.pages.store import path_in
from cometmq.console.settings import ConsoleSettings
from cometmq.errors import NotFound


@pytest.fixture
def directory(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """Return a copy of a store that a real RocketMQ wrote."""
    return Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))


@pytest.fixture
async def of_store(directory: Path) -> AsyncIterator[Browser]:
    async with browsing(ConsoleSettings(store=directory)) as browser:
        yield browser


async def test_a_dead_brokers_store_is_shown(of_store: Browser, directory: Path) -> None:
    text = await of_store.text("/")
    assert "Pointers begin" in text and "Topics" in text and str(directory) in text
    listed = await of_store.text("/files?find=commitlog")
    assert "commitlog/00000000000000000000" in listed and "checkpoint" not in listed
    assert "there is no page /topics" in await of_store.text("/topics", 404)


async def test_files_are_explained_field_by_field(of_store: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    page = await of_store.text("/files/commitlog/00000000000000000000")
    assert "physical_offset" in page and "topic" in page
    monkeypatch.setattr(module, "ROWS", 1)
    first = await of_store.page("/files/commitlog/00000000000000000000")
    place = first.text.partition('href="?at=')[2].partition('"')[0]
    assert int(place) > 0
    second = await of_store.text(f"/files/commitlog/00000000000000000000?at={place}")
    assert f"{place} record" in second
    assert "checkpoint" in await of_store.text("/files/checkpoint")
    assert "write a whole number" in await of_store.text("/files/checkpoint?at=x", 400)


async def test_a_store_is_verified_and_damage_is_found(of_store: Browser, directory: Path) -> None:
    page = await of_store.page("/verify")
    assert "Sound Messages " in text_of(await of_store.send(page, "/verify"))
    log = directory / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)
    found = text_of(await of_store.send(page, "/verify"))
    assert "Damaged" in found and "damage: " in found
    assert (await of_store.client.post("/verify")).status_code == 403


def test_files_outside_the_store_are_not_there(directory: Path) -> None:
    (directory / "link").symlink_to("/etc/hostname")
    for name in ("../x", "/etc/hostname", "link", "nothing", "", "a\0b", "n" * 300):
        with pytest.raises(NotFound, match="no file"):
            path_in(directory, name)


async def test_a_log_that_is_too_long_for_a_page_is_for_the_command(
    of_store: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VERIFIED_BYTES_MAX", 1)
    refused = await of_store.send(await of_store.page("/verify"), "/verify")
    assert refused.status_code == 400 and "run cometmq store verify" in text_of(refused)
