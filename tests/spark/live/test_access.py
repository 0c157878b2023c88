import re

import pytest

from cometmq.errors import SettingsError
from cometmq.net.tls.client import TLS
from cometmq.spark.live import access, options
from cometmq.spark.live.access import (
    ACCESS_OPTIONS,
    TLS_OPTIONS,
    ClusterAccess,
    credentials_of_options,
    tls_of_options,
)
from cometmq.spark.sink import sink
from cometmq.spark.values import OptionTexts
from cometmq.wire.acl import Credentials

USER = Credentials("user", "hidden")
KEYS = {"accessKey": "user", "secretKey": "hidden"}
LEAST = {"namesrv": "127.0.0.1:9876"}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the credentials of whoever runs the tests."""
    for name in ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)


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


def test_reads_and_writes_are_signed_by_the_user_of_their_options() -> None:
    read = options.parse(LEAST | {"subscribe": "orders"} | KEYS)
    assert read.cluster == ClusterAccess(("127.0.0.1:9876",), None, USER)
    write = sink.parse(LEAST | {"topic": "orders"} | KEYS)
    assert write.credentials == USER
    assert "hidden" not in f"{read} {read.cluster} {write}"


def test_without_options_the_user_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials_of_options(OptionTexts({}, ACCESS_OPTIONS)) is None
    monkeypatch.setenv("COMETMQ_ACCESS_KEY", "user")
    monkeypatch.setenv("COMETMQ_SECRET_KEY", "hidden")
    assert credentials_of_options(OptionTexts({}, ACCESS_OPTIONS)) == USER


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"accessKey": "user"}, "accessKey is given alone"),
        ({"secretKey": "hidden"}, "secretKey is given alone"),
        ({"accessKey": "user", "secretKey": ""}, "secret_key is empty"),
    ],
)
def test_half_of_the_credentials_is_refused_without_showing_it(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        credentials_of_options(OptionTexts(given, ACCESS_OPTIONS))
    assert "hidden" not in str(caught.value)


def test_the_documented_options_are_those_that_exist() -> None:
    documented = re.findall(r"^([a-z]\w+)  +\S", access.__doc__ or "", re.MULTILINE)
    assert tuple(documented[1:]) == ACCESS_OPTIONS
