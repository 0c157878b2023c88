"""How the servers of a cluster are connected to; the options of TLS, for reads and writes of live topics.

==============  ================================================================================
option          meaning
==============  ================================================================================
tls             true connects to name servers and brokers by TLS; the other options imply it
tlsCaFile       PEM file of the authorities that are trusted; the system's when not given
tlsCertFile     PEM file of the certificate to show to servers …
tlsKeyFile      … and of its key, if that is in another file …
tlsKeyPassword  … and its password
tlsCheckHost    false accepts certificates that are for other hosts
tlsVerify       false accepts any certificate: who sits between can read and change everything
==============  ================================================================================

Driver and executors read the files at the same paths.
"""

from typing import Final, NamedTuple

from cometmq.errors import SettingsError
from cometmq.net.tls.client import TLS
from cometmq.spark import values
from cometmq.spark.values import OptionTexts

TLS_OPTIONS: Final = (
    "tls",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsKeyPassword",
    "tlsCheckHost",
    "tlsVerify",
)


class ClusterAccess(NamedTuple):
    """The name servers of a cluster, and how its servers are connected to: by TLS, or plainly if None."""

    name_servers: tuple[str, ...]
    tls: TLS | None = None


def tls_of_options(texts: OptionTexts) -> TLS | None:
    """Return how to connect by TLS; None to connect plainly. Raises SettingsError for a contradiction."""
    given = [name for name in TLS_OPTIONS[1:] if name in texts]
    if not texts.read("tls", values.flag, bool(given)):
        if given:
            raise SettingsError(f"option tls is false, so {given[0]} has no effect: leave one of them out")
        return None
    return TLS(
        ca_file=texts.read("tlsCaFile", values.text, None),
        cert_file=texts.read("tlsCertFile", values.text, None),
        key_file=texts.read("tlsKeyFile", values.text, None),
        key_password=texts.read("tlsKeyPassword", values.text, None),
        check_host=texts.read("tlsCheckHost", values.flag, True),
        verify=texts.read("tlsVerify", values.flag, True),
    )
