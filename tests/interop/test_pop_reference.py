"""RocketMQ's own integration tests of pop, with brokers that run outside of the tests' process.

They are those of ``rocketmq-test``'s ``tests`` jar; ``reference/BaseConf.java`` sends them here. Left out is
``PopPriorityIT``: it changes the settings of the brokers that it expects in its own process.
"""

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.interop import jvm, peers
from tests.interop.groups import in_group

pytestmark = [pytest.mark.interop, pytest.mark.interop_long]

REFERENCE = jvm.HERE / "reference"
POM = REFERENCE / "pom.xml"
PROGRAMS = (REFERENCE, jvm.PROGRAMS / "Launch.java", jvm.PROGRAMS / "Lines.java")
PACKAGE = "org.apache.rocketmq.test.client.consumer.pop"
RETRIES = "org.apache.rocketmq.test.retry.PopConsumerRetryIT"
"""Sets the mode of a group before that group exists."""
CLUSTER = "DefaultCluster"
NAMES = ("broker-a", "broker-b")
SETTINGS: dict[str, object] = peers.PATIENT | {
    "brokerClusterName": CLUSTER,
    "enablePropertyFilter": "true",
    "loadBalancePollNameServerInterval": "500",
}
"""Of those that the tests set themselves, what they need."""
TIMEOUT_S = 600

TESTS = (
    "BatchAckIT",
    "NotificationIT",
    "PopBigMessageIT",
    "PopMessageAndForwardingIT",
    "PopOrderlyIT",
    "PopSubCheckIT",
)
LEFT_OUT = ("PopPriorityIT",)


class Outside(NamedTuple):
    """Where the tests find their servers."""

    namesrv: str
    brokers: tuple[str, str]

    @property
    def properties(self) -> dict[str, str]:
        """The same as ``BaseConf.java`` reads it."""
        pairs = zip(NAMES, self.brokers, strict=True)
        named = {f"outside.broker{number}": f"{name}={at}" for number, (name, at) in enumerate(pairs, 1)}
        return named | {"outside.namesrv": self.namesrv, "outside.cluster": CLUSTER}


def _class_name(test: str) -> str:
    return test.rpartition(".")[2]


@pytest.fixture(scope="module", params=[in_group(name, "pop_reference") for name in peers.START])
def outside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """Run a name server and two brokers."""
    folder = tmp_path_factory.mktemp(request.param)
    first, second = NAMES
    with ExitStack() as running:
        one = running.enter_context(
            peers.START[request.param](folder / first, SETTINGS | {"brokerName": first})
        )
        two = running.enter_context(
            peers.START_BROKER[request.param](folder / second, one.namesrv, SETTINGS | {"brokerName": second})
        )
        yield Outside(one.namesrv, (one.broker, two.broker))


@pytest.mark.parametrize("test", [*(f"{PACKAGE}.{name}" for name in TESTS), RETRIES], ids=_class_name)
def test_a_class_of_the_reference_passes(outside: Outside, test: str, tmp_path: Path) -> None:
    """Lasts up to a minute: the tests wait for times that they set themselves."""
    ends = jvm.run(
        "RunTests",
        test,
        home=tmp_path,
        programs=PROGRAMS,
        properties=outside.properties,
        pom=POM,
        timeout_s=TIMEOUT_S,
    )
    for line in ends:
        print(f"\n{_class_name(test)}.{line['test']}: {line['end'].splitlines()[0]}", end="")
    assert ends
    assert [line for line in ends if line["end"] not in ("passed", "ignored")] == []


def test_no_class_of_the_reference_is_forgotten() -> None:
    (jar,) = jvm.jars(POM).glob("rocketmq-test-*-tests.jar")
    folder = PACKAGE.replace(".", "/")
    with zipfile.ZipFile(jar) as content:
        names = [Path(name).stem for name in content.namelist() if name.startswith(folder)]
    assert {name for name in names if name.endswith("IT")} == {*TESTS, *LEFT_OUT}
