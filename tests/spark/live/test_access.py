import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.certificates import Authority
from tests.live import in_thread

from cometmq.errors import SettingsError
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import ClientAuth, TlsMode
from cometmq.spark import started
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


@pytest.mark.timeout(600)  # Spark's start, on a machine that is busy
def test_a_session_writes_and_reads_by_tls_with_a_certificate_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    made, own = authority.certify(), authority.certify("spark", password="secret")
    settings: dict[str, Any] = {
        "tls_server_mode": TlsMode.ENFORCING,
        "tls_server_cert_path": str(made.cert),
        "tls_server_key_path": str(made.key),
        "tls_server_need_client_auth": ClientAuth.REQUIRE,
        "tls_server_trust_cert_path": str(authority.cert),
        "tls_client_trust_cert_path": str(authority.cert),
        "tls_client_cert_path": str(own.cert),
        "tls_client_key_path": str(own.key),
        "tls_client_key_password": "secret",
    }
    given = {
        "tlsCaFile": str(authority.cert),
        "tlsCertFile": str(own.cert),
        "tlsKeyFile": str(own.key),
        "tlsKeyPassword": "secret",
    }
    with in_thread(tmp_path / "store", **settings) as live:
        at = {"namesrv": live.name_server, "retrySeconds": "1"}
        rows = spark.range(100).selectExpr("string(id) AS body")
        rows.write.format("rocketmq").options(**at, **given, topic="numbers").mode("append").save()
        reader = spark.read.format("rocketmq").options(**at, subscribe="numbers", minPartitions="2")
        read = reader.options(**given).load().selectExpr("int(string(body)) AS number")
        assert sorted(row["number"] for row in read.collect()) == list(range(100))
        stream = spark.readStream.format("rocketmq").options(**at, **given, subscribe="numbers")
        copies = stream.options(startingOffsets="earliest", columns="body").load().writeStream
        copies = copies.format("rocketmq").options(**at, **given, topic="copies")
        copies = copies.option("checkpointLocation", str(tmp_path / "checkpoint"))
        started(copies.trigger(availableNow=True).start()).awaitTermination()
        copied = spark.read.format("rocketmq").options(**at, **given, subscribe="copies")
        assert copied.load().count() == 100
        for wrong, words in (
            ({}, "accepts TLS only"),
            ({"tlsCaFile": str(Authority(tmp_path, "stranger").cert)}, "its certificate is not accepted"),
            ({"tlsCaFile": str(authority.cert)}, "it requires a certificate of the client"),
        ):
            with pytest.raises(PySparkException, match=words):
                spark.read.format("rocketmq").options(**at, **wrong, subscribe="numbers").load().count()
