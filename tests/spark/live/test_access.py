import re

import pytest

from cometmq.errors import SettingsError
from cometmq.net.tls.client import TLS
from cometmq.spark.live import access, options
from cometmq.spark.live.access import TLS_OPTIONS, ClusterAccess, tls_of_options
from cometmq.spark.sink import sink
from cometmq.spark.values import OptionTexts

LEAST = {"namesrv": "127.0.0.1:9876"}


def test_the_documented_options_are_those_that_exist() -> None:
    documented = re.findall(r"^([a-z]\w+)  +\S", access.__doc__ or "", re.MULTILINE)
    assert documented == ["option", *TLS_OPTIONS]


@pytest.mark.parametrize(
    ("given", "tls"),
    [
        ({}, None),
        ({"tls": "false"}, None),
        ({"tls": "true"}, TLS()),
        ({"tlsCaFile": "ca.pem"}, TLS(ca_file="ca.pem")),
        ({"tls": "true", "tlsCheckHost": "false"}, TLS(check_host=False)),
        ({"tlsVerify": "false"}, TLS(verify=False)),
        (
            {"tlsCertFile": "c", "tlsKeyFile": "k", "tlsKeyPassword": "p"},
            TLS(cert_file="c", key_file="k", key_password="p"),
        ),
    ],
)
def test_reads_and_writes_take_the_same_options(given: dict[str, str], tls: TLS | None) -> None:
    read = options.parse(LEAST | {"subscribe": "orders"} | given)
    assert (read.tls, read.cluster) == (tls, ClusterAccess(("127.0.0.1:9876",), tls))
    assert sink.parse(LEAST | {"topic": "orders"} | given).tls == tls
    assert "secret" not in repr(read)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls": "false", "tlsCaFile": "ca.pem"}, "option tls is false, so tlsCaFile has no effect"),
        ({"tls": "on"}, "option tls on: give true or false"),
        ({"tlsCaFile": ""}, "option tlsCaFile is empty"),
        ({"tlsKeyFile": "k"}, "give cert_file"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        tls_of_options(OptionTexts(given, TLS_OPTIONS))
