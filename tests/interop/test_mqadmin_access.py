"""mqadmin's commands for users and acls print the same of RocketMQ's own broker and of CometMQ's."""

import itertools
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.jvm import Run
from tests.interop.peers import Peer
from tests.kit.accounts import OF_JAVA, SETTINGS

pytestmark = pytest.mark.interop


# In this order; {broker} is the address of the broker, {other} that of the other one.
COMMANDS = """\
createUser -b {broker} -u u1 -p 12345678 -t Normal
createUser -b {broker} -u u1 -p 12345678
createUser -c DefaultCluster -u boss -p 12345678 -t Super
getUser -b {broker} -u u1
updateUser -b {broker} -u u1 -s disable
updateUser -b {broker} -u nobody -s disable
listUser -c DefaultCluster -f bo
createAcl -b {broker} -s User:u1 -r Topic:T1,Group:G* -a Pub,Sub -d Allow -i 127.0.0.1,10.0.0.0/8
createAcl -c DefaultCluster -s User:boss -r * -a All -d Deny
createAcl -b {broker} -s User:nobody -r Topic:T1 -a Pub -d Allow
createAcl -b {broker} -s User:u1 -r T1 -a Pub -d Allow
createAcl -b {broker} -s User:u1 -r Topic:T1 -a Fly -d Allow
updateAcl -b {broker} -s User:u1 -r Topic:T1 -a Get -d Deny
getAcl -b {broker} -s User:nobody
listAcl -b {broker}
listAcl -c DefaultCluster -s u1 -r Topic
deleteAcl -b {broker} -s User:u1 -r Topic:T1
deleteAcl -b {broker} -s User:boss
deleteAcl -b {broker} -s User:boss
deleteUser -b {broker} -u boss
listUser -b {broker}
copyUser -f {broker} -t {other} -u u1
copyAcl -f {broker} -t {other} -s User:u1
getUser -b {other} -u u1
getAcl -b {other} -s User:u1
""".splitlines()
TRACE = re.compile(r"^(\tat |\t\.\.\. |For more information).*\n", re.MULTILINE)


@pytest.fixture(scope="module")
def tools_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of mqadmin's with its credentials, in ``conf/tools.yml``."""
    home = tmp_path_factory.mktemp("tools")
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text("accessKey: admin\nsecretKey: 12345678\n")
    return home


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    """RocketMQ's broker and CometMQ's, both with authentication on and the same first users."""
    stores = tmp_path_factory.mktemp("secured")
    with ExitStack() as running:
        reference = peers.rocketmq(stores / "rocketmq", SETTINGS | OF_JAVA, ended_by=signal.SIGKILL)
        ours = peers.cometmq(stores / "cometmq", SETTINGS, ended_by=signal.SIGKILL)
        yield running.enter_context(reference), running.enter_context(ours)


def test_users_and_acls_are_managed_alike(
    secured: tuple[Peer, Peer], run_java: Run, tools_home: Path, tmp_path: Path
) -> None:
    reference, ours = secured
    expected = outputs(reference, ours, run_java, tools_home, tmp_path)
    assert "#UserName" in "".join(expected), "the reference must have done something"
    # What was copied is still there: our commands begin as the reference's did.
    clean = ["deleteUser -b {broker} -u u1"]
    for peer in secured:
        run_commands(clean, peer, peer, run_java, tools_home, tmp_path)
    found = outputs(ours, reference, run_java, tools_home, tmp_path)
    for command, reference_output, output in zip(COMMANDS, expected, found, strict=True):
        print(f"\nmqadmin {command}\n{output}", end="")
        assert output == reference_output, f"mqadmin {command}:\n{reference_output}\n---\n{output}"


def outputs(broker: Peer, other: Peer, run_java: Run, home: Path, tmp_path: Path) -> list[str]:
    """Return what each command prints, without addresses and the places of Java's stack traces."""
    printed = run_commands(COMMANDS, broker, other, run_java, home, tmp_path)
    texts = []
    for text in printed:
        for name, address in (("{broker}", broker.broker), ("{other}", other.broker)):
            text = text.replace(address, name)  # noqa: PLW2901 - step by step
        texts.append(TRACE.sub("", text))
    return texts


def run_commands(
    commands: Sequence[str], broker: Peer, other: Peer, run_java: Run, home: Path, tmp_path: Path
) -> list[str]:
    file = tmp_path / f"commands-{next(_numbers)}"
    file.write_text(
        "\n".join(command.format(broker=broker.broker, other=other.broker) for command in commands)
    )
    answers = run_java("Mqadmin", broker.namesrv, file, properties={"rocketmq.home.dir": str(home)})
    return [answer["output"] for answer in answers]


_numbers = itertools.count()
