"""The page of settings and the file ``packaging/broker.conf`` have all of them.

``python -m tests.docs.test_settings`` writes its tables, the file, and the list of what files may say, anew.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

import pytest
from tests.kit.documented_settings import (
    CLASSES,
    CONF,
    SERVERS,
    conf,
    rows,
)
from tests.kit.pages import ROOT

from cometmq.errors import SettingsError
from cometmq.namesrv.settings import NameServerSettings
from cometmq.proxy.settings import ProxySettings
from cometmq.settings.foreign import DIFFERING, STOPPING
from cometmq.settings.values import SettingsGroup, settings_from
from cometmq.store.foreign import KINDS

PAGE: Final = ROOT / "docs" / "settings.md"
FLAT: Final = ROOT / "tests" / "settings" / "flat_settings.txt"
"""All settings as files have them, in the order of their names: default, and why another value is refused."""
TABLE: Final = re.compile(r"^\| (?:setting|in the store) \|.*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)


def table(settings: type[SettingsGroup]) -> str:
    """Build the table of a class's settings from its docstring."""
    lines = ["| setting | default | what it says |", "|---|---|---|"]
    lines += [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in rows(settings)]
    return "\n".join(lines) + "\n"


def flat_settings() -> Iterator[str]:
    """Yield what ``FLAT`` says of the settings of each server."""
    for kind in SERVERS:
        yield f"# {kind.__name__}\n"
        for name, default in sorted(kind().in_files().items()):
            try:
                settings_from(kind, {name: "wrong"})
                why = "any text"
            except SettingsError as error:
                why = str(error).partition(": ")[2]
            shown = "the host's name" if name == "brokerName" else default
            yield f"{name} = {shown!r}: {why}\n"


def foreign_tables() -> Iterator[str]:
    """Yield the tables of RocketMQ's settings and files that stop a start, and of settings that differ."""
    lines = [
        "| setting | stops the start unless it is | what another value says | remedy |",
        "|---|---|---|---|",
    ]
    for name, (defaults, reason, remedy) in STOPPING.items():
        texts = [f"`{one.replace('{root}', 'storePathRootDir')}`" if one else "empty" for one in defaults]
        lines.append(f"| `{name}` | {', '.join(texts)} | {reason} | {remedy} |")
    yield "\n".join(lines) + "\n"
    lines = ["| in the store | what it holds | so that a broker starts |", "|---|---|---|"]
    lines += [
        f"| `{kind.place}` | {kind.what} | {kind.remedy or 'nothing: it is left alone, and named'} |"
        for kind in KINDS
    ]
    yield "\n".join(lines) + "\n"
    lines = ["| setting | RocketMQ's default | what holds here, whatever its value |", "|---|---|---|"]
    lines += [f"| `{name}` | {one.default or 'empty'} | {one.differs} |" for name, one in DIFFERING.items()]
    yield "\n".join(lines) + "\n"


@pytest.mark.parametrize(("settings", "position"), list(zip(CLASSES, range(5), strict=True)))
def test_the_page_has_each_setting_its_default_and_its_meaning(
    settings: type[SettingsGroup], position: int
) -> None:
    assert TABLE.findall(PAGE.read_text())[position] == table(settings), "python -m tests.docs.test_settings"


def test_the_page_has_what_is_not_honoured_and_the_settings_of_name_servers_and_proxies() -> None:
    further = [*foreign_tables(), table(NameServerSettings), table(ProxySettings)]
    assert TABLE.findall(PAGE.read_text())[len(CLASSES) :] == further


def test_names_defaults_and_ranges_in_files_do_not_depend_on_groups() -> None:
    assert "".join(flat_settings()) == FLAT.read_text(), "python -m tests.docs.test_settings"


if __name__ == "__main__":
    further = [table(NameServerSettings), table(ProxySettings)]
    tables = chain(map(table, CLASSES), foreign_tables(), further)
    PAGE.write_text(TABLE.sub(lambda _: next(tables), PAGE.read_text()))
    CONF.write_text(conf())
    FLAT.write_text("".join(flat_settings()))
