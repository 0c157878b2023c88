import os
import tempfile
from pathlib import Path

import pytest

from cometmq.kernels.compiling import places
from cometmq.kernels.compiling.places import CacheFolder


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide folders of the test's own for package, user and the system's temporary folder."""
    for name in (places.SETTING, places.NUMBA_SETTING):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "PACKAGE", tmp_path / "package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    return tmp_path


def temporary(folders: Path) -> Path:
    return folders / "tmp" / f"cometmq-kernels-{os.geteuid()}"


def refuse(monkeypatch: pytest.MonkeyPatch, *, package: bool = True, user: bool = True) -> None:
    """Forbid directories in the folders of package and user."""
    if package:
        monkeypatch.setattr(places, "PACKAGE", Path(os.devnull))
    if user:
        monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)


def test_a_user_s_own_folder_comes_first_and_the_package_s_where_all_are_to_find_it(folders: Path) -> None:
    assert places.to_write(for_all_users=False).path == folders / "caches" / "cometmq"
    assert places.to_write(for_all_users=True).path == folders / "package" / "__pycache__"


def test_the_other_one_is_used_where_one_cannot_be_written_to(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, user=False)
    assert places.to_write(for_all_users=True).path == folders / "caches" / "cometmq"


def test_the_last_resort_is_a_folder_for_this_user_alone(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    place = places.to_write(for_all_users=False)
    assert place == CacheFolder(temporary(folders), is_shared=True)
    assert place.path.stat().st_mode & 0o777 == 0o700
    assert place in places.to_read()


def test_a_user_without_a_home_has_the_last_resort(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    refuse(monkeypatch)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert places.to_write(for_all_users=False).path == temporary(folders)


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_shared_folder_that_others_may_enter_is_neither_read_nor_written(
    folders: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    refuse(monkeypatch)
    temporary(folders).mkdir()
    temporary(folders).chmod(mode)
    assert temporary(folders) not in {place.path for place in places.to_read()}
    with pytest.raises(OSError, match=places.SETTING):
        places.to_write(for_all_users=False)


def test_a_shared_folder_of_somebody_else_is_neither_read_nor_written(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    theirs = temporary(folders)
    theirs.mkdir(mode=0o700)
    monkeypatch.setattr(CacheFolder, "_is_ours", lambda *_: False)
    assert theirs not in {place.path for place in places.to_read()}
    with pytest.raises(OSError, match=places.SETTING):
        places.to_write(for_all_users=False)


def test_a_shared_folder_that_is_a_link_is_neither_read_nor_written(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    (folders / "theirs").mkdir(mode=0o700)
    temporary(folders).symlink_to(folders / "theirs")
    assert temporary(folders) not in {place.path for place in places.to_read()}
    with pytest.raises(OSError, match=places.SETTING):
        places.to_write(for_all_users=False)


def test_a_folder_that_the_setting_names_comes_first(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = folders / "named"
    monkeypatch.setenv(places.SETTING, str(named))
    assert places.to_write(for_all_users=False).path == named
    assert places.to_read()[0].path == named


def test_what_the_setting_names_may_be_read_only(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.SETTING, os.devnull)
    assert places.to_write(for_all_users=False).path == folders / "caches" / "cometmq"


def test_numba_s_own_setting_leaves_no_other_place(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.NUMBA_SETTING, str(folders / "numba"))
    assert [place.path for place in places.to_read()] == [folders / "numba"]
    monkeypatch.setenv(places.NUMBA_SETTING, os.devnull)
    with pytest.raises(OSError, match=f"/dev/null: set {places.SETTING}"):
        places.to_write(for_all_users=False)


def test_without_any_folder_for_temporary_files_the_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    refuse(monkeypatch)
    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(OSError, match=f"set {places.SETTING}"):
        places.to_write(for_all_users=False)
