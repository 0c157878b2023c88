"""The settings of a gRPC proxy, read from TOML or from lines ``key=value``: what its clients may take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from cometmq.errors import SettingsError
from cometmq.net.settings_file import read_file
from cometmq.net.tls.settings import TlsSettings
from cometmq.settings.values import SettingsGroup, flat_fields, settings_from

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=65_536, le=1 << 40)]


class ProxySettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """The settings of a gRPC proxy. None of those that are not of TLS is RocketMQ's.

    Attributes:
        calls_max: calls of a connection that are under way; one that the client has reset counts until its
            work has ended. Before a known user has signed a call, 100 at most.
        resets_max: calls that a connection may reset at once before it is closed …
        resets_per_second: … and how many of them it regains in a second.
        idle_frames_max: HTTP/2 frames of a connection that carry nothing (PING, SETTINGS, WINDOW_UPDATE,
            empty DATA, …) before it is closed; each call, and each 512 bytes that it is sent, allow more …
        idle_frames_per_second: … and how many of them it regains in a second.
        turn_frames_max: HTTP/2 frames of all connections that are handled in one turn before they share it
            out; the beginning of a call counts as sixteen.
        unhandled_bytes_max: bytes of a connection that wait for its turn before it is not read.
        unsent_bytes_max: bytes of answers that a connection has not read before it gets no further messages.
        unsent_bytes_total_max: bytes of answers that all connections have not read; messages get half of
            that, and then who has kept an answer waiting for two seconds loses its connection.
        inflated_bytes_max: bytes of the largest body that is decompressed for a client that cannot do it; a
            larger one is passed on as it is.
        request_items_max: messages of a send, entries of an acknowledgement, topics and subscriptions of a
            client's settings, before the request is refused.
        settings_bytes_max: bytes of a client's settings before they are refused …
        settings_bytes_total_max: … and of those of all clients.
        handled_messages_max: messages of a group that the proxy hides until a client has handled them, before
            that client gets no further ones …
        handled_messages_total_max: … and those of all clients and groups.
    """

    tls: TlsSettings = TlsSettings()
    calls_max: Count = 1_000
    resets_max: Count = 1_000
    resets_per_second: Count = 100
    idle_frames_max: Count = 2_000
    idle_frames_per_second: Count = 100
    turn_frames_max: Count = 256
    unhandled_bytes_max: Bytes = 65_536
    unsent_bytes_max: Bytes = 16 << 20
    unsent_bytes_total_max: Bytes = 64 << 20
    inflated_bytes_max: Bytes = 16 << 20
    request_items_max: Count = 1_000
    settings_bytes_max: Bytes = 65_536
    settings_bytes_total_max: Bytes = 256 << 20
    handled_messages_max: Count = 10_000
    handled_messages_total_max: Count = 1_000_000


def load(path: Path | None, overrides: Mapping[str, Any]) -> ProxySettings:
    """Read settings from a file, TOML by its suffix, then apply ``overrides`` by name.

    Raises SettingsError if it cannot be read, or has a setting that cannot be used.
    """
    values = {} if path is None else read_file(path)
    known = [field.encode_name for field in flat_fields(ProxySettings)]
    if unknown := sorted(set(values) - set(known)):
        raise SettingsError(
            f"settings file {path}: a proxy has no setting {', '.join(unknown)}; it has {', '.join(known)}"
        )
    return settings_from(ProxySettings, values | dict(overrides))
