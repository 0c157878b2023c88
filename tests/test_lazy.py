import sys
from types import ModuleType

import pytest

from cometmq import lazy


def test_a_name_is_imported_once_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    package, home = ModuleType("package"), ModuleType("home")
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "home", home)
    home.thing = object()  # type: ignore[attr-defined]  # a module made here
    get = lazy.importer("package", {"thing": "home"})
    assert "thing" not in vars(package)
    assert get("thing") is vars(package)["thing"] is vars(home)["thing"]
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'other'"):
        get("other")
