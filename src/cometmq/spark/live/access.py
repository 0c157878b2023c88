"""How the servers of a cluster are connected to; the options for that, of reads and writes of live topics.

==============  ================================================================================
option          meaning
==============  ================================================================================
accessKey       the user who signs the requests; that of the driver's environment when not given
secretKey       and its secret: ``COMETMQ_ACCESS_KEY``, ``COMETMQ_SECRET_KEY``
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
from cometmq.wire.acl import Credentials

TLS_OPTIONS: Final = (
    "tls",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsKeyPassword",
    "tlsCheckHost",
    "tlsVerify",
)


ACCESS_OPTIONS: Final = ("accessKey", "secretKey", *TLS_OPTIONS)


class ClusterAccess(NamedTuple):
    """The name servers of a cluster, and how its servers are connected to.

    Attributes:
        tls: by TLS, or plainly if None.
        credentials: sign the requests; None if they are not signed.
    """

    name_servers: tuple[str, ...]
    tls: TLS | None = None
    credentials: Credentials | None = None


def credentials_of_options(texts: OptionTexts) -> Credentials | None:
    """Return the credentials of the options, else of the environment. Raises SettingsError for one half."""
    from cometmq.client.credentials import find_credentials  # noqa: PLC0415  asyncio and more

    given = [name for name in ("accessKey", "secretKey") if name in texts]
    if not given:
        return find_credentials(None)
    if len(given) == 1:
        raise SettingsError(f"option {given[0]} is given alone: give accessKey and secretKey")
    return Credentials(texts["accessKey"], texts["secretKey"])


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
