"""What an installation without an extra says: one line with the remedy, wherever the missing part is met."""

from pathlib import Path

import pytest
from tests.kit.programs import TRY_ALL, without

from cometmq.cli.main import COMMANDS, NEEDS
from cometmq.errors import MissingExtra, SettingsError
from cometmq.extras import PACKAGES, require

ALL = {package for packages in PACKAGES.values() for package in packages}
STORE = ("broker", "numpy")
BROKER = ("broker", "numpy", "lark")
SPARK = ("spark", "numpy", "pyspark", "pyarrow")
DELTA = ("delta", "deltalake")
METRICS = ("metrics", "prometheus_client")
PARTS = {
    "from cometmq.store import MessageStore": STORE,
    "from cometmq import kernels": STORE,
    "from cometmq.broker.broker import Broker": BROKER,
    "from cometmq.broker.settings import load": BROKER,
    "from cometmq.testing import EmbeddedBroker": BROKER,
    "from cometmq.testing.embedded_broker import EmbeddedBroker": BROKER,
    "from cometmq.spark import session": SPARK,
    "from cometmq.spark.session import session": SPARK,
    "from cometmq.spark.starting import started": SPARK,
    "from cometmq.spark import drop_duplicates": SPARK,
    "from cometmq.spark.jobs.report.page import page": (*SPARK, "jinja2"),
    "from cometmq.spark.jobs.export.targets import check_delta_package; check_delta_package()": DELTA,
    "from cometmq.spark import LagListener; LagListener(prometheus=True)": METRICS,
    "from cometmq.metrics.endpoint import Endpoint, EndpointSource; "
    "Endpoint('127.0.0.1', 0, EndpointSource(dict, list), labels={}, series_max=1)": METRICS,
    "from cometmq.client.idempotence.redis import _connect; _connect('redis://127.0.0.1')": (
        "redis",
        "redis",
    ),
}
"""Public parts that are optional, the extra of each, and the packages that it cannot do without."""
BASE = [
    "from cometmq import Consumer, Deduplicator, LitePullConsumer, Lookup, Producer, PullConsumer",
    "from cometmq import TransactionProducer",
    "from cometmq import SimpleConsumer",
    "from cometmq.blocking import Consumer, Producer, PullConsumer, SimpleConsumer",
    "from cometmq.client.idempotence import RedisClaims",
    "from cometmq.testing import Fault",
    "from cometmq.testing.plugin import rocketmq",
    "from cometmq.namesrv.name_server import NameServer",
    "import cometmq.admin.topics, cometmq.admin.groups, cometmq.admin.offsets, cometmq.admin.messages",
]


RUN_ALL = """
    import io, json
    from contextlib import redirect_stderr, redirect_stdout
    from cometmq.cli.main import main
    found = []
    for arguments in STATEMENTS:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main(arguments)
            except SystemExit as ended:
                found.append([ended.code, out.getvalue(), err.getvalue()])
    print(json.dumps(found))
"""


def test_clients_need_no_extra() -> None:
    assert without(ALL, TRY_ALL, BASE) == dict.fromkeys(BASE)


@pytest.mark.parametrize(
    "missing",
    [
        ALL,
        {"numpy"},
        {"lark"},
        {"pyspark"},
        {"pyarrow"},
        {"jinja2"},
        {"deltalake"},
        {"prometheus_client"},
        {"redis"},
    ],
)
def test_each_optional_part_is_there_or_names_its_extra(missing: set[str]) -> None:
    found = without(missing, TRY_ALL, list(PARTS))
    for statement, part in PARTS.items():
        extra, *needed = (
            SPARK
            if part in (DELTA, METRICS) and "spark" in statement and missing.intersection(SPARK)
            else part
        )
        lacking = missing.intersection(needed)
        if not lacking:
            assert found[statement] is None
            continue
        kind, text = found[statement]
        assert kind == "MissingExtra" and text.endswith(f": pip install 'cometmq[{extra}]'")
        assert any(package in text for package in lacking)


def test_each_command_s_help_is_there_or_one_line_says_what_to_install() -> None:
    found = without(ALL, RUN_ALL, [(name, "--help") for name in COMMANDS])
    for name, (code, out, err) in zip(COMMANDS, found, strict=True):
        if name in NEEDS:
            assert (code, out) == (2, "")
            assert err.startswith(f"error: cometmq {name} needs ") and err.count("\n") == 1
            assert f"pip install 'cometmq[{NEEDS[name]}]'" in err
        else:
            assert (code, err) == (0, "") and out.startswith(f"Usage: cometmq {name}")


def test_each_command_that_needs_an_extra_fails_with_one_line() -> None:
    extras = {
        ("dev",): "broker",
        ("broker",): "broker",
        ("namesrv",): "broker",
        ("kernels",): "fast",
        ("console",): "console",
        ("proxy",): "proxy",
        ("store", "status", "x"): "broker",
        ("spark", "verify", "x"): "spark",
        ("demo",): "spark,jre",
    }
    for extra, (code, out, err) in zip(extras.values(), without(ALL, RUN_ALL, list(extras)), strict=True):
        assert (code, out) == (2, "")
        assert err.startswith("error: ") and err.count("\n") == 1
        assert f"pip install 'cometmq[{extra}]'" in err


def test_a_server_whose_part_lacks_its_extra_creates_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for extra, option in (("proxy", "grpc"), ("console", "console"), ("metrics", "metrics")):
        missing = set(PACKAGES[extra]) - set(PACKAGES["broker"])
        command = ("dev", "--port", "0", "--store", str(store), "--tls", f"--{option}-port", "0")
        ((code, out, err),) = without(missing, RUN_ALL, [command])
        assert (code, out) == (2, "")
        assert f"--{option}-port needs " in err and err.endswith(f"pip install 'cometmq[{extra}]'\n")
    assert not store.exists()


def test_the_proxy_lacks_its_extra_where_no_package_of_its_vendor_is_installed() -> None:
    ((code, _, err),) = without({"google"}, RUN_ALL, [("proxy",)])
    assert (code, err) == (
        2,
        "error: cometmq proxy needs google.protobuf: pip install 'cometmq[proxy]'\n",
    )


def test_without_numba_all_but_the_command_that_compiles_is_there() -> None:
    missing = {"numba", "llvmlite"}
    assert without(missing, TRY_ALL, list(PARTS)) == dict.fromkeys(PARTS)
    ((code, _, err),) = without(missing, RUN_ALL, [("kernels",)])
    assert (code, err) == (2, "error: cometmq kernels needs numba: pip install 'cometmq[fast]'\n")


SERVE = """
    import asyncio, json, logging
    from cometmq.admin.broker_status import broker_status
    from cometmq.broker.broker import Broker
    from cometmq.broker.settings import BrokerSettings
    from cometmq.client import Producer
    from cometmq.kernels import loading
    from cometmq.message import Message
    from cometmq.namesrv.name_server import NameServer
    told = []
    class Told(logging.Handler):
        def emit(self, record):
            told.append(record.getMessage())
    logging.getLogger(loading.__name__).addHandler(Told())
    async def main():
        name_server = NameServer("127.0.0.1", 0)
        await name_server.start()
        own = {"broker_name": "b", "listen_port": 0, "store_path_root_dir": STATEMENTS[0]}
        broker = Broker(BrokerSettings.of(namesrv_addr=name_server.address, **own))
        await broker.start()
        async with Producer(name_server.address) as producer:
            statuses = {(await producer.send(Message("T", b"x"))).status.name for _ in range(10)}
        while (serving := (await broker_status(broker.address)).kernels) == "plain, loading":
            pass  # it ends soon
        found = [sorted(statuses), serving]
        await broker.stop()
        await name_server.stop()
        return found
    print(json.dumps([*asyncio.run(main()), told]))
"""


def test_a_broker_without_numba_serves_by_the_plain_operations_and_says_so_once(tmp_path: Path) -> None:
    statuses, serving, told = without({"numba", "llvmlite"}, SERVE, [str(tmp_path / "store")])
    assert statuses == ["SEND_OK"] and serving == "plain: numba is not installed"
    (line,) = told
    assert "pip install 'cometmq[fast]'" in line


def test_what_is_missing_is_named() -> None:
    require("broker", "it")
    with pytest.raises(
        MissingExtra, match=r"^it needs absent_one, absent_two: pip install 'cometmq\[broker\]'$"
    ) as raised:
        require("broker", "it", "absent_one", "numpy", "absent_two")
    assert issubclass(MissingExtra, ModuleNotFoundError) and issubclass(MissingExtra, SettingsError)
    assert raised.value.name == "absent_one"
