"""The settings as the page and ``packaging/broker.conf`` have them."""

import re
import textwrap
from collections.abc import Iterator
from inspect import getdoc
from typing import Final

from msgspec.structs import fields
from tests.kit.pages import ROOT

from cometmq.broker.admin.live_settings import CHANGEABLE
from cometmq.broker.auth_settings import AuthSettings
from cometmq.broker.settings import BrokerSettings
from cometmq.namesrv.settings import NameServerSettings
from cometmq.net.tls.settings import TlsSettings
from cometmq.proxy.settings import ProxySettings
from cometmq.replication.settings import ReplicationSettings
from cometmq.settings.values import SettingsGroup, flat_fields
from cometmq.store.settings import StoreSettings

CONF: Final = ROOT / "packaging" / "broker.conf"
HEAD: Final = """\
# All settings of a broker, with their defaults: cometmq broker --config broker.conf
# Remove the # before those that you change. Names are RocketMQ's, sizes in bytes, times in ms if nothing else
# is said; a line that begins with ... goes on from the one before it. [live] settings can be changed while
# the broker runs. docs/settings.md has the same as tables, with what is behind them.
"""
SECTIONS: Final = ("The broker", "The store", "Masters and slaves", "TLS", "Users and authentication")
WIDTH: Final = 110
CLASSES: Final[tuple[type[SettingsGroup], ...]] = (
    BrokerSettings,
    StoreSettings,
    ReplicationSettings,
    TlsSettings,
    AuthSettings,
)
SERVERS: Final[tuple[type[SettingsGroup], ...]] = (
    BrokerSettings,
    StoreSettings,
    NameServerSettings,
    ProxySettings,
)
NAMES: Final = {field.name: field.encode_name for kind in SERVERS for field in flat_fields(kind)}
ATTRIBUTE: Final = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def rows(settings: type[SettingsGroup]) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and meaning of each setting of a class and its groups, from their docstrings."""
    text = (getdoc(settings) or "").partition("Attributes:\n")[2]
    meanings = {name: " ".join(meaning.split()) for name, meaning in ATTRIBUTE.findall(text)}
    defaults = settings().in_files() | {"brokerName": "the host's name"}
    for field in fields(settings):
        if field.name in meanings:
            meaning = _as_markdown(meanings[field.name])
            yield field.encode_name, _default(defaults[field.encode_name]), meaning
        elif field.type not in CLASSES:
            yield from rows(field.type)


def conf() -> str:
    """Build the settings file: each setting as a comment, under what it says."""
    parts = [HEAD]
    for title, settings in zip(SECTIONS, CLASSES, strict=True):
        parts.append(f"\n\n# ---- {title} ----\n")
        for name, default, meaning in rows(settings):
            live = " [live]" if name in CHANGEABLE else ""
            text = meaning.replace("`", "").replace("\\|", "|").replace("…", "...")
            parts += [f"\n# {line}" for line in textwrap.wrap(text + live, WIDTH)]
            parts.append(f"\n#{name}={'' if default == 'none' else default}\n")
    return "".join(parts)


def _default(value: object) -> str:
    if value in (None, ""):
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_markdown(meaning: str) -> str:
    """Write names in a docstring as they are in files."""
    for attribute, name in NAMES.items():
        meaning = re.sub(rf"\b{attribute}\b(?=[^`]*``)", name, meaning) if "_" in attribute else meaning
    return meaning.replace("``", "`").replace("|", "\\|")
