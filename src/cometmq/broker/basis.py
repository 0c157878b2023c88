"""What the construction of a broker's parts starts from: its settings, store and clocks, and who all know.

Only the modules ``parts`` get it, one in each folder; a part gets what it needs, and never the whole.
"""

from typing import NamedTuple

from cometmq.broker.client_calls import ClientCalls
from cometmq.broker.reads import Reads
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable


class Basis(NamedTuple):
    """What parts are constructed from.

    Attributes:
        address: the IP address and the port for clients.
        peers_clock: measures the silence of peers and the age of their locks.
        calls: requests of the broker to its clients.
        bodies: decodes the bodies of requests.
    """

    settings: Settings
    store: MessageStore
    files: FileLayer
    clock: Clock
    peers_clock: Clock
    address: tuple[str, int]
    reads: Reads
    calls: ClientCalls
    bodies: RequestBodies

    @property
    def own(self) -> BrokerSettings:
        """The broker's settings, without the store's."""
        return self.settings.broker

    @property
    def broker_name(self) -> str:
        """The broker's name."""
        return self.own.identity.broker_name

    @property
    def host(self) -> bytes:
        """The address as records hold it."""
        return pack_host(*self.address)

    def table(self, name: str) -> JsonTable:
        """Return a table of the broker, which is kept beside the store."""
        return JsonTable(self.files, layout.config_path(self.store.root, name))
