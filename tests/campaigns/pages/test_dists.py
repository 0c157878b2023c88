"""The campaign ``dists`` installs every extra."""

import tomllib

from tests.campaigns.pages.dists import LARGE, ROOT, SMALL


def test_each_extra_is_installed_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [*SMALL, *LARGE].count("") == 1
    assert sorted([*SMALL, *LARGE]) == sorted(["", *project["optional-dependencies"]])
