"""RocketMQ 5's own clients for Python, Node.js and Java, by ``cometmq proxy`` in front of both brokers.

The first two connect plainly, the Java client by TLS to the same port. ``make interop-long`` runs the same
programs by RocketMQ's proxy in front of its own broker, too, which judges them.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.certificates import Authority
from tests.interop import jvm, peers, proxies, topics
from tests.interop.groups import in_group
from tests.interop.patience import PATIENCE_S, wait_until
from tests.interop.peers import Peer
from tests.interop.programs import Host, Line
from tests.signatures import USER

from cometmq.admin import access, dead_letters, groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import NotFound
from cometmq.net.tls.throwaway import CertificateFiles
from cometmq.testing import EmbeddedBroker
from cometmq.wire.bodies.access import PolicyEntryInfo, UserInfo
from cometmq.wire.bodies.group import GroupConfig

pytestmark = pytest.mark.interop

PROGRAMS: Final = Path(__file__).with_name("grpc_clients")
NODE: Final = PROGRAMS / "node"
PACKAGES: Final = Path(__file__).parents[2] / "build"  # not among the tests, whose sources are judged
RESTART_COUNT = 400
UNKNOWN_SETTINGS: Final = (
    "RocketMQ's proxy answers 50001 to a receive that comes before the client's settings, which Python's "
    "simple consumer does not wait for"
)

Run = Callable[..., list[Line]]


class Client(NamedTuple):
    """One of the clients whose programs have the same names, arguments and lines, at one of the proxies."""

    name: str
    proxy: str
    run: Run

    def named(self, what: str) -> str:
        """Return a name for a topic or a group that is not another client's, nor another proxy's."""
        return f"Grpc{what}{self.name}{self.proxy}"


def marks_of(client: str, proxy: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a client's tests by a proxy: Node.js may be missing where ``make interop`` runs."""
    marks = [pytest.mark.interop_long] if client == "Node" or proxy == "rocketmq" else []
    if (client, proxy) == ("Python", "rocketmq"):
        marks.append(pytest.mark.xfail(reason=UNKNOWN_SETTINGS, raises=AssertionError, strict=False))
    return marks


def each_way(broker: str, group: str, clients: Sequence[str]) -> pytest.MarkDecorator:
    """Run a test by our proxy in front of both brokers, and by RocketMQ's in front of its own."""
    ways = [
        pytest.param(
            *(product, proxy, client),
            id=f"@{product}_{group}-{client}-{proxy}",
            marks=marks_of(client, proxy),
        )
        for product, proxy in (*((product, "cometmq") for product in peers.START), ("rocketmq", "rocketmq"))
        for client in clients
    ]
    return pytest.mark.parametrize((broker, "proxy_product", "client"), ways, indirect=True)


def each_client(broker: str, group: str) -> pytest.MarkDecorator:
    """Run a test with the clients that have the same programs."""
    return each_way(broker, group, ("Python", "Node"))


at_each_broker = each_client("broker", "shared")
of_java = partial(each_way, clients=("Java",))
of_python = partial(each_way, clients=("Python",))


def python_with_client() -> Path:
    """Return a Python that has the client: packages as it wants them, apart from those of here."""
    requirements = PROGRAMS / "requirements.txt"

    def install(folder: Path) -> None:
        jvm.run_tool(sys.executable, "-m", "venv", folder)
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        jvm.run_tool(str(folder / "bin" / "python"), *pip, "-r", requirements)

    return jvm.made_once("python-client", [requirements], install, PACKAGES) / "bin" / "python"


def node_with_client() -> Path:
    """Return a folder with the programs of Node.js, and the packages that they need."""
    files = [NODE / name for name in ("package.json", "package-lock.json", "programs.js")]

    def install(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
        jvm.run_tool("npm", "ci", *options, "--prefix", folder)

    return jvm.made_once("node-client", files, install, PACKAGES)


def programs_of(home: Path, command: Callable[[], list[str]]) -> Iterator[Run]:
    """Provide what runs a program of a process, which is started when the first is run."""
    environment = os.environ | {"HOME": str(home)}  # where clients write their logs
    hosts: list[Host] = []

    def run(program: str, *arguments: object) -> list[Line]:
        if not hosts or not hosts[-1].is_fit:
            hosts.append(Host(home, command(), environment))
        printed = hosts[-1].run(program, [str(argument) for argument in arguments], PATIENCE_S)
        return [json.loads(line) for line in printed]

    yield run
    for host in hosts:
        host.kill()


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a program of ``grpc_clients/programs.py`` and return the lines that it yielded."""
    programs = str(PROGRAMS / "programs.py")
    yield from programs_of(tmp_path_factory.mktemp("python"), lambda: [str(python_with_client()), programs])


@pytest.fixture(scope="session")
def run_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a program of ``grpc_clients/node`` and return the lines that it told."""
    yield from programs_of(
        tmp_path_factory.mktemp("node"),
        lambda: [jvm.path_of("node"), str(node_with_client() / "programs.js")],
    )


@pytest.fixture(scope="session")
def proxy_product(request: pytest.FixtureRequest) -> str:
    """Whose proxy the clients connect to."""
    return str(request.param)


@pytest.fixture
def client(request: pytest.FixtureRequest, proxy_product: str) -> Client:
    run = request.getfixturevalue(f"run_{request.param.lower()}")
    return Client(request.param, "" if proxy_product == "cometmq" else "Theirs", run)


@pytest.fixture
def run_java(tmp_path: Path) -> Run:
    """Run a program of ``grpc_clients/java`` and return the lines that it printed."""
    programs = (PROGRAMS / "java", jvm.PROGRAMS / "Launch.java", jvm.PROGRAMS / "Lines.java")
    return partial(jvm.run, home=tmp_path, programs=programs, pom=PROGRAMS / "pom.xml", timeout_s=PATIENCE_S)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return Authority(tmp_path_factory.mktemp("certificates")).certify()


@pytest.fixture(scope="session")
def shared_proxies(
    certificate: CertificateFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], str]]:
    """Return what starts a product's proxy for a name server when it is asked for first."""
    with ExitStack() as running:

        @cache
        def of_name_server(product: str, namesrv: str) -> str:
            if product == "cometmq":
                return running.enter_context(proxies.cometmq_proxy(namesrv, certificate))
            home = tmp_path_factory.mktemp("proxy")
            return running.enter_context(proxies.rocketmq_proxy(home, namesrv))[0]

        yield of_name_server


@pytest.fixture
def proxy(broker: Peer, proxy_product: str, shared_proxies: Callable[[str, str], str]) -> str:
    return shared_proxies(proxy_product, broker.namesrv)


@pytest.fixture
def asking_proxy(asking_broker: Peer, proxy_product: str, shared_proxies: Callable[[str, str], str]) -> str:
    return shared_proxies(proxy_product, asking_broker.namesrv)


def create_topic(broker: Peer, topic: str, message_type: str = "NORMAL", **options: Any) -> str:
    """Create a topic for a type of messages; return its name."""
    asyncio.run(topics.create_topic(broker.namesrv, topic, message_type, **options))
    return topic


def create_group(broker: Peer, group: str, **settings: Any) -> str:
    async def create() -> None:
        async with ClusterAdmin(broker.namesrv) as admin:
            await groups.create(admin, GroupConfig(group=group, **settings))

    asyncio.run(create())
    return group


def dead_letters_of(broker: Peer, group: str) -> list[str]:
    """Wait for dead letters of a group, which RocketMQ's proxy makes later than it answers; return them."""

    async def read() -> list[str]:
        async with ClusterAdmin(broker.namesrv) as admin:
            return [letter.body.decode() async for letter in dead_letters.letters(admin, group)]

    found: list[str] = []

    def find() -> list[str]:
        with suppress(NotFound):
            found[:] = asyncio.run(read())
        return found

    wait_until(find)
    return found


def bodies(lines: list[Line]) -> list[str]:
    return [line["body"] for line in lines]


def texts(*messages: dict[str, Any]) -> list[str]:
    return [json.dumps(message) for message in messages]


@at_each_broker
def test_a_message_arrives_as_it_was_sent(broker: Peer, proxy: str, client: Client) -> None:
    topic = create_topic(broker, client.named("Normal"))
    sent = {"body": "a chair", "tag": "red", "keys": "order-1", "properties": {"shop": "7"}}
    (receipt,) = client.run("send", proxy, topic, *texts(sent))
    (received,) = client.run("receive", proxy, topic, client.named("Normal"), 1)
    assert {name: received[name] for name in ("body", "tag")} == {"body": "a chair", "tag": "red"}
    assert received["keys"] == ["order-1"] and received["properties"]["shop"] == "7"
    assert received["message_id"] == receipt["message_id"]
    assert received["attempt"] == 1 and not received["corrupted"]


@at_each_broker
@pytest.mark.parametrize(
    ("kind", "expression"), [("TAG", "red || blue"), ("SQL", "TAGS IN ('red', 'blue') AND size > 1")]
)
def test_a_filter_lets_through_what_it_names(
    broker: Peer, proxy: str, client: Client, kind: str, expression: str
) -> None:
    topic = create_topic(broker, client.named(f"Filter{kind}"))
    colors = [{"body": tag, "tag": tag, "properties": {"size": "2"}} for tag in ("red", "green", "blue")]
    client.run("send", proxy, topic, *texts(*colors))
    lines = client.run("receive", proxy, topic, topic, 2, expression, kind)
    assert sorted(bodies(lines)) == ["blue", "red"]


@at_each_broker
def test_a_message_that_fails_comes_again_and_becomes_a_dead_letter(
    broker: Peer, proxy: str, client: Client
) -> None:
    name = client.named("Fails")
    topic, group = create_topic(broker, name), create_group(broker, name, retry_max_times=1)
    client.run("send", proxy, topic, *texts({"body": "broken"}))
    *deliveries, end = client.run("fail", proxy, topic, group, 2)
    assert [(line["body"], line["attempt"]) for line in deliveries] == [("broken", 1), ("broken", 2)]
    assert end == {"then": 0}
    assert dead_letters_of(broker, group) == ["broken"]


@at_each_broker
def test_a_delayed_message_comes_in_time_and_a_recalled_one_never(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Delay"), "DELAY")
    (recalled,) = client.run("recall", proxy, topic)
    assert recalled["is_the_first"]
    (received,) = client.run("receive", proxy, topic, client.named("Delay"), 1)
    assert received["body"] == "delayed" and received["received"] >= recalled["due"]


@at_each_broker
def test_each_message_group_keeps_its_order_and_one_that_fails_holds_up_its_own(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Fifo"), "FIFO", queues=4)
    settings = {"retry_max_times": 1, "consume_message_orderly": True}
    group = create_group(broker, client.named("Fifo"), **settings)
    failing = "a1" if client.name == "Python" else "none"  # Node's gives one that fails up at once
    names = [f"{letter}{number}" for number in range(4) for letter in "abc"]
    messages = [{"body": name, "message_group": f"group-{name[0]}"} for name in names]
    client.run("send", proxy, topic, *texts(*messages))
    handled = client.run("consume", proxy, topic, group, len(names) + (failing in names), failing)
    for letter in "abc":
        of_group = [name for name in bodies(handled) if name[0] == letter]
        again = [failing] if failing[0] == letter else []
        assert of_group == sorted([*again, *(name for name in names if name[0] == letter)])
    if failing in names:
        assert dead_letters_of(broker, group) == [failing]


@of_python("broker", "shared")
def test_a_message_of_an_ordered_group_that_comes_again_says_so(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("Ordered"), "FIFO", queues=1)
    group = create_group(broker, client.named("Ordered"), consume_message_orderly=True)
    messages = [{"body": name, "message_group": "g"} for name in ("first", "second")]
    client.run("send", proxy, topic, *texts(*messages))
    received = client.run("receive_twice", proxy, topic, group)
    attempts = [(line["body"], line["attempt"]) for line in received]
    assert attempts == [("first", 1), ("first", 2), ("second", 1)]


@each_client("asking_broker", "transactions")
def test_a_transaction_is_committed_rolled_back_or_asked_for(
    asking_broker: Peer, asking_proxy: str, client: Client
) -> None:
    topic = create_topic(asking_broker, client.named("Transaction"), "TRANSACTION")
    asked, *received = client.run("transact", asking_proxy, topic, client.named("Transaction"))
    assert asked["asked"]["body"] == "left open"
    assert sorted(bodies(received)) == ["committed", "left open"]


@of_java("broker", "shared")
def test_what_fails_at_a_push_consumer_of_java_comes_again(broker: Peer, proxy: str, client: Client) -> None:
    name = client.named("Push")
    topic, group = create_topic(broker, name), create_group(broker, name, retry_max_times=1)
    names = [f"m{number}" for number in range(8)]
    handled = client.run("Push", proxy, topic, group, "none", len(names) + 1, "m3", *names)
    attempts = sorted((line["body"], line["attempt"]) for line in handled)
    assert attempts == sorted([*((name, 1) for name in names), ("m3", 2)])


@of_java("broker", "shared")
def test_a_push_consumer_of_java_keeps_the_order_of_each_message_group(
    broker: Peer, proxy: str, client: Client
) -> None:
    topic = create_topic(broker, client.named("PushFifo"), "FIFO", queues=4)
    settings = {"retry_max_times": 1, "consume_message_orderly": True}
    group = create_group(broker, client.named("PushFifo"), **settings)
    names = [f"{letter}{number}" for number in range(4) for letter in "abc"]
    handled = client.run("Push", proxy, topic, group, "groups", len(names) + 1, "a1", *names)
    for letter in "abc":
        again = ["a1"] if letter == "a" else []
        expected = sorted([*again, *(name for name in names if name[0] == letter)])
        assert [name for name in bodies(handled) if name[0] == letter] == expected
    assert dead_letters_of(broker, group) == ["a1"]


@of_java("asking_broker", "transactions")
def test_transactions_of_java_are_committed_rolled_back_or_asked_for(
    asking_broker: Peer, asking_proxy: str, client: Client
) -> None:
    topic = create_topic(asking_broker, client.named("Transact"), "TRANSACTION")
    asked, *received = client.run("TransactAndReceive", asking_proxy, topic, topic)
    assert asked == {"asked": "left open"}
    assert sorted(bodies(received)) == ["committed", "left open"]


async def create_shop(broker: Peer, name: str) -> None:
    """Create a user of a broker, who may send to the topic of its name, and receive in that group."""
    async with ClusterAdmin(broker.namesrv, credentials=USER) as admin:
        await access.add_user(admin, UserInfo(name, "secret"))
        for resource, actions in ((f"Topic:{name}", ["Pub", "Sub"]), (f"Group:{name}", ["Sub"])):
            await access.add_entry(admin, name, PolicyEntryInfo(resource, actions, decision="Allow"))


@pytest.mark.parametrize("_name", [in_group("rocketmq", "signatures")])
def test_what_the_python_client_signs_is_judged_by_the_users_of_a_java_broker(
    _name: str, java_broker: Peer, certificate: CertificateFiles, run_python: Run
) -> None:
    for name in ("GrpcSigned", "GrpcOther"):
        create_topic(java_broker, name, credentials=USER)
    asyncio.run(create_shop(java_broker, "GrpcSigned"))
    with proxies.cometmq_proxy(java_broker.namesrv, certificate, USER) as proxy:
        run_python("send", f"GrpcSigned:secret@{proxy}", "GrpcSigned", *texts({"body": "signed"}))
        received = run_python("receive", f"GrpcSigned:secret@{proxy}", "GrpcSigned", "GrpcSigned", 1)
        assert bodies(received) == ["signed"]
        for user, topic in (("GrpcSigned:wrong", "GrpcSigned"), ("GrpcSigned:secret", "GrpcOther")):
            with pytest.raises(AssertionError, match="failed to fetch topic"):
                run_python("send", f"{user}@{proxy}", topic, *texts({"body": "refused"}))


def test_what_was_stored_arrives_although_broker_and_proxy_restart(
    certificate: CertificateFiles, run_python: Run
) -> None:
    port, topic = peers.free_port(), "Restarts"
    arguments = f"{peers.HOST}:{port}", topic, topic, RESTART_COUNT
    with EmbeddedBroker() as embedded, ThreadPoolExecutor(1) as pool:
        embedded.create_topic(topic)

        def over_restarts(program: str, begun: int) -> list[Line]:
            with proxies.cometmq_proxy(embedded.name_server, certificate, port=port) as address:
                run_python("send", address, topic, *texts({"body": "0"}))  # starts the client's process
                running = pool.submit(run_python, program, *arguments)
                embedded.wait_messages(topic, begun)
            embedded.restart()
            with proxies.cometmq_proxy(embedded.name_server, certificate, port=port):
                return running.result()

        sent = over_restarts("send_all", RESTART_COUNT // 4)
        assert any(line["tries"] > 1 for line in sent), "the proxy was never missing"
        received = over_restarts("receive_all", RESTART_COUNT)
        assert {line["body"] for line in received} == {str(number) for number in range(RESTART_COUNT)}
