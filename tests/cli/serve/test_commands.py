import asyncio
import json
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.conftest import Process, Ran, Run
from tests.interop.ports import free_port
from tests.kit.controllers import MEMBERS, controllers

from cometmq.cli.serve.commands import NAME_SERVER_PORT
from cometmq.net.connection import Connection
from cometmq.wire import settings_text
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command


class Dev(NamedTuple):
    """A ``cometmq dev`` that is ready."""

    process: Process
    broker: str
    name_server: str
    store: Path


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    store = tmp_path / "new" / "store"
    with Process("dev", "--port", "0", "--namesrv-port", "0", "--store", str(store)) as process:
        yield started(process, store)


def started(process: Process, store: Path) -> Dev:
    ready = re.fullmatch(r"ready: broker (\S+), name server (\S+), store (.+)", process.line())
    assert ready and ready[3] == str(store)
    return Dev(process, ready[1], ready[2], store)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_and_all_that_was_sent_is_there_again(
    cometmq: Run, dev: Dev, number: signal.Signals
) -> None:
    namesrv = ("--namesrv", dev.name_server)
    assert cometmq("topic", "create", "T", *namesrv).code == 0
    assert cometmq("send", "T", "kept", *namesrv).code == 0
    assert (dev.store / "abort").exists()
    assert dev.process.kill(number)[:2] == (0, "")
    assert not (dev.store / "abort").exists()
    config = dev.store.parent / "broker.conf"
    config.write_text(f"storePathRootDir = {dev.store}\nlistenPort = 0\nsendMessageThreadPoolNums = 16\n")
    with Process("dev", "--namesrv-port", "0", "--config", str(config)) as process:
        again = started(process, dev.store)
        kept = cometmq("consume", "T", "--namesrv", again.name_server, "--json").values
        assert [message["body"] for message in kept] == ["kept"]
        ended = process.kill(number)
    assert ended.code == 0 and "no effect here: sendMessageThreadPoolNums" in ended.err


def test_a_second_broker_on_a_store_or_a_port_says_what_to_do(cometmq: Run, dev: Dev, tmp_path: Path) -> None:
    port = dev.broker.rpartition(":")[2]
    for arguments, code, words in (
        (("--port", "0", "--store", str(dev.store)), 1, (str(dev.store), "another process", "stop it first")),
        (("--port", port, "--store", str(tmp_path)), 2, (dev.broker, "choose another port")),
    ):
        assert last_words(cometmq("broker", *arguments)).failed(code, *words)
    assert last_words(cometmq("namesrv", "--port", port)).failed(2, dev.broker, "choose another port")


@pytest.mark.parametrize("command", ["broker", "dev"])
def test_settings_that_move_the_data_stop_the_start_before_anything_is_there(
    cometmq: Run, tmp_path: Path, command: str
) -> None:
    config, store = tmp_path / "broker.conf", tmp_path / "store"
    config.write_text(f"storePathRootDir={store}\nlistenPort=0\nstoreType=defaultRocksDB\ndLegerGroup=g\n")
    ran = cometmq(command, "--config", str(config), "--ignore", "dLegerGroup")
    assert last_words(ran).failed(2, "storeType = 'defaultRocksDB'", "--ignore storeType")
    ran = cometmq(command, "--config", str(config))
    assert [line.split()[2] for line in ran.err.splitlines()[-2:]] == ["dLegerGroup", "storeType"]
    assert ran.code == 2 and not store.exists()


@pytest.mark.parametrize("command", ["broker", "dev", "dev --tls"])
def test_a_store_with_what_is_not_read_is_refused_before_anything_of_it_changes(
    cometmq: Run, foreign: Mapping[str, Path], tmp_path: Path, command: str
) -> None:
    store = Path(shutil.copytree(foreign["pops"], tmp_path / "pops"))
    before = {path: path.stat().st_mtime_ns for path in [store, *store.rglob("*")]}
    ran = cometmq(*command.split(), "--port", "0", "--store", str(store))
    words = (str(store / "kvStore"), "in flight by pops", "mqadmin exportPopRecord", "Nothing was changed")
    assert last_words(ran).failed(2, *words)
    assert {path: path.stat().st_mtime_ns for path in [store, *store.rglob("*")]} == before


def test_a_setting_that_is_ignored_is_named_in_the_log(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(f"storePathRootDir={tmp_path / 'store'}\nlistenPort=0\nstoreType=defaultRocksDB\n")
    with Process("broker", "--config", str(config), "--ignore", "storeType") as process:
        assert process.line().startswith("ready: broker ")
        ended = process.kill(signal.SIGTERM)
    assert ended.code == 0 and "storeType = defaultRocksDB is ignored: the queues are in RocksDB" in ended.err


def test_a_broker_alone_registers_with_the_name_servers_given(cometmq: Run, tmp_path: Path) -> None:
    with Process("namesrv", "--port", "0") as one, Process("namesrv", "--port", "0") as two:
        addresses = [server.line().removeprefix("ready: name server ") for server in (one, two)]
        config = tmp_path / "broker.toml"
        config.write_text(f'brokerName = "from-file"\nlistenPort = 1\nstorePathRootDir = "{tmp_path}/s"\n')
        arguments = ("--config", str(config), "--port", "0", "--namesrv", ";".join(addresses))
        with Process("broker", *arguments) as broker:
            line = broker.line()
            assert re.fullmatch(rf"ready: broker \S+, name servers {';'.join(addresses)}, store .*/s", line)
            for address in addresses:
                (lines,) = cometmq("topic", "list", "--all", "--json", "--namesrv", address).values
                assert {line["broker_name"] for line in lines} == {"from-file"}
            assert broker.kill(signal.SIGTERM).code == 0
        assert cometmq("topic", "list", "--all", "--json", "--namesrv", addresses[0]).failed(
            1, "no broker", addresses[0]
        )
        assert [server.kill(signal.SIGINT).code for server in (one, two)] == [0, 0]


async def test_a_broker_under_a_controller_is_ready_once_it_has_a_role(tmp_path: Path) -> None:
    async with controllers(1) as ([controller], _):
        config = tmp_path / "broker.conf"
        config.write_text(
            f"brokerName={MEMBERS.broker_name}\nenableControllerMode=true\nbrokerId=-1\nbrokerRole=SLAVE\n"
            f"controllerAddr={controller.address}\nstorePathRootDir={tmp_path}/s\nlistenPort={free_port()}\n"
        )
        with Process("broker", "--config", str(config)) as broker:
            line = await asyncio.to_thread(broker.line)
            assert re.fullmatch(r"ready: broker \S+, name servers none, store .*/s", line)
            assert controller.state.masters == {1: 1}
            ended = await asyncio.to_thread(broker.kill, signal.SIGTERM)
        assert ended.code == 0 and "is SYNC_MASTER of epoch 1" in ended.err
        assert not (tmp_path / "s" / "abort").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("listenPort = 70000", ("listenPort", "70000", "65535")),
        ("flushDiskType = NEVER", ("flushDiskType", "NEVER")),
        ("mappedFileSizeCommitLog = 12", ("mappedFileSizeCommitLog", "12", "4096")),
        ("namesrvAddr = nonsense", ("'nonsense'", "host:port")),
        ("enableControllerMode = true", ("enableControllerMode", "set controllerAddr")),
        (r"brokerName = \u12", ("settings file", "four hexadecimal digits")),
        (None, ("settings file", "No such file")),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    cometmq: Run, tmp_path: Path, content: str | None, words: tuple[str, ...]
) -> None:
    config = tmp_path / "broker.conf"
    if content is not None:
        config.write_text(content + "\n")
    for command in ("broker", "dev"):
        ended = last_words(cometmq(command, "--config", str(config), "--store", str(tmp_path / "s")))
        assert ended.failed(2, *words)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("dev", "--port", "65536"), 2, ("--port", "65535", "cometmq dev --help")),
        (
            ("dev", "--host", "192.0.2.1", "--namesrv-port", "0", "--insecure"),
            2,
            ("192.0.2.1", "not an address of this machine"),
        ),
        (("dev", "--host", "192.0.2.1"), 2, ("other machines", "authenticationEnabled", "--insecure")),
        (("namesrv", "--host", "::"), 2, ("other machines", "--users FILE", "--insecure")),
        (("broker", "--host", "::"), 2, ("other machines", "authenticationEnabled", "--insecure")),
        (("namesrv", "--users", "no-such-file"), 2, ("no-such-file", "No such file")),
        (("namesrv", "--closed-routes"), 2, ("--users",)),
        (("namesrv", "--host", "no such host"), 2, ("no such host", "not an address of this machine")),
        (("broker", "--namesrv", "127.0.0.1"), 2, ("'127.0.0.1'", "host:port")),
        (("broker", "--config", "."), 2, ("--config", "directory")),
        (("broker", "--store", "/dev/null/x", "--port", "0"), 1, ("/dev/null/x", "Not a directory")),
    ],
)
def test_what_cannot_be_served_is_named(
    cometmq: Run, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    assert last_words(cometmq(*arguments)).failed(code, *words)


def last_words(ran: Ran) -> Ran:
    """Leave out what a server logged before it failed."""
    return ran._replace(err=ran.err.splitlines(keepends=True)[-1])


def test_ports_are_told_to_programs_on_one_line(cometmq: Run, tmp_path: Path) -> None:
    with Process("dev", "--port", "0", "--json", "--store", str(tmp_path / "store")) as process:
        told = json.loads(process.line())
        assert told["broker"].endswith(f":{told['broker_port']}") and told["store"] == str(tmp_path / "store")
        assert told["name_server"].endswith(f":{told['name_server_port']}")
        assert told["name_server_port"] != NAME_SERVER_PORT
        assert told["vip_port"] in (told["broker_port"] - 2, None)
        config = asyncio.run(get_config(told["broker"]))
        assert config["enablePropertyFilter"] == "true"
        assert cometmq("send", "T", "hello", "-n", told["name_server"]).code == 0
        broker_options = ("--port", "0", "--store", str(tmp_path / "other"), "--namesrv", told["name_server"])
        with Process("broker", "--json", *broker_options) as broker:
            assert json.loads(broker.line())["name_servers"] == [told["name_server"]]
    limits = ("--registration-topics-max", "5", "--request-body-bytes-max", "2000")
    with Process("namesrv", "--port", "0", "--json", *limits) as name_server:
        told = json.loads(name_server.line())
        assert told["name_server_port"] > 0
        config = asyncio.run(get_config(told["name_server"], RequestCode.GET_NAMESRV_CONFIG))
        assert (config["registrationTopicsMax"], config["requestBodyBytesMax"]) == ("5", "2000")
        assert config["nonstandardBodyBytesMax"] == "24576"


def test_the_port_of_slaves_gives_way_in_dev(tmp_path: Path) -> None:
    port = free_port()
    options = ("--port", str(port), "--namesrv-port", str(port + 1), "--store", str(tmp_path / "store"))
    with Process("dev", *options) as process:
        assert f"name server 127.0.0.1:{port + 1}" in process.line()
        assert "no port for slaves" not in process.kill(signal.SIGTERM).err


def test_a_name_server_reads_a_namesrv_conf(cometmq: Run, tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text(f"listenPort=1\nsupportActingMaster=true\nkvConfigPath={tmp_path / 'kv.json'}\n")
    with Process("namesrv", "--config", str(config), "--port", "0", "--json") as name_server:
        address = json.loads(name_server.line())["name_server"]
        shown = asyncio.run(get_config(address, RequestCode.GET_NAMESRV_CONFIG))
        assert shown["supportActingMaster"] == "true"
    config.write_text("enableControllerInNamesrv=true\n")
    ran = cometmq("namesrv", "--config", str(config))
    assert last_words(ran).failed(2, "enableControllerInNamesrv", "--ignore", "controllerAddr")


def test_a_file_turns_off_what_dev_turns_on(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("enablePropertyFilter=false\nvipChannelEnable=false\n")
    options = ("--port", "0", "--json", "--store", str(tmp_path / "store"), "--config", str(config))
    with Process("dev", *options) as process:
        told = json.loads(process.line())
        assert told["vip_port"] is None
        assert asyncio.run(get_config(told["broker"]))["enablePropertyFilter"] == "false"


async def get_config(address: str, code: RequestCode = RequestCode.GET_BROKER_CONFIG) -> dict[str, str]:
    """Ask a broker, or with another code a name server, for its settings."""
    connection = await Connection.open(address)
    answer = await connection.request(Command(code))
    await connection.close()
    return settings_text.decode(answer.body)
