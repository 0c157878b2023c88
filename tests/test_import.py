"""What ``import cometmq`` gives, and how little it takes."""

import subprocess
import sys

import pytest

import cometmq
from cometmq import client


@pytest.mark.parametrize("name", cometmq.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(cometmq, name).__name__ == name
    assert name in dir(cometmq)


def test_the_names_of_clients_have_one_list_of_their_homes() -> None:
    assert sorted(client._HOMES) == sorted(client.__all__)
    assert {name for name, home in cometmq._HOMES.items() if home == client.__name__} == set(client.__all__)


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'cometmq' has no attribute 'Nothing'"):
        _ = cometmq.Nothing


def test_the_clients_need_nothing_that_is_slow_to_import() -> None:
    heavy = {"numpy", "numba", "pyarrow", "pyspark", "uvloop", "lark", "click", "rich", "lz4"}
    program = f"import sys, cometmq; cometmq.Producer; print(sorted({heavy} & set(sys.modules)))"
    assert run(program) == "[]\n"


def test_who_only_sends_imports_no_consumer() -> None:
    program = (
        "import sys; from cometmq import Producer; print('cometmq.client.group.rebalancing' in sys.modules)"
    )
    assert run(program) == "False\n"


def test_the_name_alone_imports_nothing_of_the_package() -> None:
    program = "import sys, cometmq; print([name for name in sys.modules if name.startswith('cometmq.')])"
    assert run(program) == "['cometmq.lazy']\n"


def run(program: str) -> str:
    """Run a program in an interpreter of its own; give what it prints."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
