"""The plugin as its users have it: pytest in a process of its own."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from tests.kit.programs import ASYNC, PLUGIN, run_pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"^```python\n# (test_\w+\.py)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"^(?:async )?def test_", re.MULTILINE)


def test_the_example_project_and_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    example = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "testing", example, ignore=shutil.ignore_patterns("__pycache__"))
    pages = NAMED.findall((ROOT / "docs" / "guide" / "testing.md").read_text())
    assert len(pages) == 6
    for name, code in pages:
        with (tmp_path / name).open("a") as file:
            file.write(code)
    number = sum(len(TEST.findall(path.read_text())) for path in tmp_path.rglob("test_*.py"))
    ran = run_pytest(tmp_path, "-W", "error", *ASYNC)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{number} passed" in ran.stdout


def test_a_test_that_does_not_ask_for_it_imports_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] == 'cometmq'}\n"
        f"    assert ours == {{'cometmq', 'cometmq.lazy', 'cometmq.testing', '{PLUGIN}'}}\n"
        "    assert not {'numpy', 'numba', 'pyspark', 'msgspec'} & set(sys.modules)\n"
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import gc, os\nos.environ['OFF'] and gc.disable()\n")
    (tmp_path / "test_it.py").write_text(
        "import gc, os\ndef test_it(rocketmq):\n    assert gc.isenabled() is not bool(os.environ['OFF'])\n"
    )
    for off in ("", "yes"):
        ran = run_pytest(tmp_path, OFF=off)
        assert ran.returncode == 0, ran.stdout


def test_without_numpy_the_fixture_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['numpy'] = None\n")
    (tmp_path / "test_it.py").write_text("def test_it(rocketmq): ...\n")
    ran = run_pytest(tmp_path)
    assert ran.returncode == 1
    assert "pip install 'cometmq[broker]'" in ran.stdout


def test_a_session_shares_one_broker_and_an_async_test_needs_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import asyncio\n"
        "from cometmq import Message\n"
        "seen = []\n"
        "def test_first(rocketmq_session):\n"
        "    rocketmq_session.send(Message('a', b'1'))\n"
        "    seen.append(rocketmq_session)\n"
        "def test_second(rocketmq_session, rocketmq):\n"
        "    assert seen == [rocketmq_session] and rocketmq is not rocketmq_session\n"
        "    assert len(rocketmq_session.messages('a')) == 1\n"
        "def test_async(rocketmq_async):\n"
        "    async def main():\n"
        "        await rocketmq_async.send(Message('a', b'1'))\n"
        "        return await rocketmq_async.wait_messages('a')\n"
        "    assert len(asyncio.run(main())) == 1\n"
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_the_kit_tells_names_that_are_not_there() -> None:
    from cometmq import testing  # noqa: PLC0415 - what it gives is the test

    assert testing.Fault.__name__ == "Fault"
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = testing.Nothing
