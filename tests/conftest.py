"""What tests of every layer share."""

import gzip
import json
import logging
import signal
import tarfile
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# How long an example takes, or is made, is a matter of the machine. pytest --hypothesis-profile long
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=10_000
)  # --hypothesis-profile
settings.load_profile("default")

GOLDEN = Path(__file__).parent / "golden"
SPARK = "spark"
"""In the name of each test, its file or its page, that needs the session."""

SHORT_JOBS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Tests' jobs are over before what Java's second compiler makes of them would pay."""


def pytest_configure() -> None:
    """Undo that a shell lets its background jobs, and all that these start, ignore SIGINT.

    Tests interrupt themselves and their children, as Ctrl-C does; to ignore is inherited, a handler is not.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.getLogger("asyncio").addHandler(LOST_ERRORS)


class LostErrors(logging.Handler):
    """Errors that asyncio could only log: of tasks whose result nobody took, of callbacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record: the traceback is formatted later, a garbage collection may run this anywhere."""
        self._records.append(record)

    def check(self) -> None:
        """Raise AssertionError if there was any since the last check."""
        records, self._records = self._records, []
        assert not records, "\n".join(map(self.format, records))


LOST_ERRORS = LostErrors()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail a test after which an error turned up that nobody had taken; it may be an earlier test's."""
    yield
    LOST_ERRORS.check()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of Spark: one process has all of them, and they take it longest.

    First of all plugins, since interop tests are put into an order of their own.
    """
    items.sort(key=lambda item: SPARK not in item.nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    """Build the plan for three processes: the tests of a file stay together, and so do all those of Spark."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  a developer may have left it out

    class OneSpark(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if SPARK in nodeid else super()._split_scope(nodeid)

    return OneSpark(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates: a process that cannot hand over its report would end the whole run."""
    return escaped((yield))


def escaped(value: Any) -> Any:
    """Return a value with all texts in it as UTF-8 can hold them."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {escaped(key): escaped(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(map(escaped, value))
    return value


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Provide the stores that a real RocketMQ wrote, by name: copy what a test is to change."""
    return _unpacked(GOLDEN, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Provide the stores of a real RocketMQ with what is not read, by name: copy what a test is to change."""
    return _unpacked(GOLDEN / "foreign", tmp_path_factory.mktemp("foreign"))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive of ours."""
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
        tar.extractall(folder)


def _unpacked(archives: Path, root: Path) -> Mapping[str, Path]:
    stores = {}
    for archive in sorted(archives.glob("*.tgz")):
        unpack(archive, root)
        stores[archive.stem] = root / archive.stem
    return stores


@pytest.fixture(scope="session")
def golden_facts() -> Mapping[str, Any]:
    """Provide what is known of the golden stores, by name: ``store-clean``, ``store-clean-dump``, …"""
    return {
        path.name.removesuffix(".json.gz"): json.loads(gzip.decompress(path.read_bytes()))
        for path in sorted(GOLDEN.glob("*.json.gz"))
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, fsspec_config: Path) -> "Iterator[SparkSession]":
    """Provide a session on two threads of this machine, one for all tests: it takes seconds to start."""
    from cometmq.spark import session  # noqa: PLC0415  most tests need no Spark

    work_dir = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FSSPEC_CONFIG_DIR", str(fsspec_config))  # for the processes of the session
        handler = signal.getsignal(signal.SIGINT)
        spark = session("local[2]", "tests", work_dir=work_dir, conf=SHORT_JOBS)
        signal.signal(signal.SIGINT, handler)  # Spark's own would keep event loops from being interrupted
    with spark:
        yield spark


@pytest.fixture(scope="session")
def fsspec_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder in which Spark's workers find how fsspec reaches file systems."""
    return tmp_path_factory.mktemp("fsspec")


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide a name server, and a broker that offers all that is not asked for usually.

    It filters by SQL, takes messages back, and delays nothing long.
    ``tests/interop`` has a fixture of this name, for the same tests with its brokers.
    """
    from tests.live import in_thread  # noqa: PLC0415  most tests need no broker
    from tests.shop import PATIENCE_S, PROMPT  # noqa: PLC0415  as above

    from cometmq.net.min_timeouts import min_timeout  # noqa: PLC0415  as above

    offered = {"enable_property_filter": True, "recall_message_enable": True}
    with (
        in_thread(tmp_path_factory.mktemp("broker"), store=PROMPT, **offered) as live,
        min_timeout(live.name_server, PATIENCE_S),
        min_timeout(live.broker, PATIENCE_S),
    ):
        yield live.name_server


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Provide a topic of the test's own."""
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:100]
