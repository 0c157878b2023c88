from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access_settings import ADMIN, SECURED
from tests.live import Live, in_thread


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A broker with authentication on, and the environment in which commands sign as its first user."""
    with in_thread(tmp_path / "store", **SECURED) as live:
        monkeypatch.setenv("NAMESRV_ADDR", live.name_server)
        monkeypatch.setenv("COMETMQ_ACCESS_KEY", ADMIN.access_key)
        monkeypatch.setenv("COMETMQ_SECRET_KEY", ADMIN.secret_key)
        yield live
