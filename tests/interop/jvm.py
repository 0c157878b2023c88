"""The real Apache RocketMQ's jars, and the small Java programs that drive them.

Maven fetches the jars once for each content of ``pom.xml``, javac compiles a folder of programs once for
each content of its sources; both lie under ``target/``, in folders named after that content, so a changed
file is never judged by a stale class.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop.patience import PROGRAM_S

HERE = Path(__file__).parent
TARGET = HERE / "target"
POM = HERE / "pom.xml"
PROGRAMS = HERE / "java"
SILENT = {"rmq.logback.configurationFile": str(HERE / "silent-logback.xml")}
SMALL_HEAP = ("-Xms256m", "-Xmx512m")
# For processes that live for seconds: what the second compiler and a collector with threads gain comes later.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

# RocketMQ's broker reaches into the JDK for direct buffers and mapped files.
BROKER_OPENS = tuple(
    f"--add-{kind}=java.base/{package}=ALL-UNNAMED"
    for kind, package in [
        ("exports", "sun.nio.ch"),
        ("opens", "java.nio"),
        ("opens", "sun.nio.ch"),
        ("opens", "jdk.internal.ref"),
    ]
)


# How tests run a program: see ``Programs.run``.
Run = Callable[..., list[dict[str, Any]]]


def jars(pom: Path = POM) -> Path:
    """Return the folder of the jars that a ``pom.xml`` names, fetched when it was never seen before."""

    def fetch(folder: Path) -> None:
        goal = "dependency:copy-dependencies"
        run_tool("mvn", "-q", "-B", "-f", pom, goal, f"-DoutputDirectory={folder}")

    return made_once("jars", [pom], fetch)


def rocketmq_version() -> str:
    """Return the version of the Apache RocketMQ that ``jars`` fetched."""
    (jar,) = jars().glob("rocketmq-broker-*.jar")
    return jar.stem.rpartition("-")[2]


def class_path(*programs: Path, pom: Path = POM) -> str:
    """Return a Java class path: the jars, and the compiled programs, each a file or a folder of them."""
    libraries = f"{jars(pom)}/*"
    if not programs:
        return libraries
    sources = sorted(
        source for path in programs for source in ([path] if path.is_file() else path.glob("*.java"))
    )

    def compile_sources(folder: Path) -> None:
        run_tool("javac", "-nowarn", "-proc:none", "-cp", libraries, "-d", folder, *sources)

    classes = made_once("classes", [pom, *sources], compile_sources)
    # A class archive is for paths that begin with the jars; BaseConf.java must stand before its namesake.
    return f"{libraries}:{classes}" if pom == POM else f"{classes}:{libraries}"


def command(
    main_class: str,
    *arguments: object,
    home: Path,
    programs: Sequence[Path] = (),
    options: Sequence[str] = SMALL_HEAP,
    properties: Mapping[str, str] | None = None,
    pom: Path = POM,
) -> list[str]:
    """Return the command line that runs a Java class; RocketMQ writes its logs below ``home``."""
    defined = {"user.home": str(home), "rocketmq.client.logRoot": str(home / "logs")} | dict(properties or {})
    return [
        path_of("java"),
        *options,
        *(f"-D{name}={value}" for name, value in defined.items()),
        "-cp",
        class_path(*programs, pom=pom),
        main_class,
        *map(str, arguments),
    ]


def environment(home: Path) -> dict[str, str]:
    """Return the environment that RocketMQ's own programs want."""
    return os.environ | {"ROCKETMQ_HOME": str(home)}


def run(
    program: str,
    *arguments: object,
    home: Path,
    programs: Sequence[Path] = (PROGRAMS,),
    properties: Mapping[str, str] | None = None,
    timeout_s: float = PROGRAM_S,
    pom: Path = POM,
) -> list[dict[str, Any]]:
    """Run one of the programs to its end and give the JSON lines it printed.

    Raises:
        AssertionError: it ended with another status than 0; says what it printed.
        subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    line = command(
        "Launch",
        program,
        *arguments,
        home=home,
        programs=programs,
        properties=SILENT | dict(properties or {}),
        pom=pom,
    )
    done = subprocess.run(
        [*dies_with_parent(), *line],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    tail = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{tail}"
    return [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]


def dies_with_parent() -> list[str]:
    """Return the start of a command line whose process ends with its parent, however that ends."""
    setpriv = shutil.which("setpriv")  # util-linux; without it only a killed test run leaves processes
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def made_once(name: str, inputs: Iterable[Path], make: Callable[[Path], None], parent: Path = TARGET) -> Path:
    """Return a folder that is made once for each content of its inputs, by whichever process is first."""
    content = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    folder = parent / f"{name}-{content[:12]}"
    if not folder.exists():
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run in parallel want the same
            if not folder.exists():
                unfinished = Path(tempfile.mkdtemp(dir=parent, prefix=f"{name}-unfinished-"))
                make(unfinished)
                unfinished.rename(folder)  # whole or not at all: an interrupted fetch leaves no half folder
    return folder


def run_tool(name: str, *arguments: object) -> None:
    """Run a program of PATH to its end. Raises AssertionError that says what it printed if it failed."""
    done = subprocess.run(
        [path_of(name), *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{name} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def path_of(name: str) -> str:
    """Return where a program of the JDK, or Maven, is."""
    home = os.environ.get("JAVA_HOME")
    found = (home and shutil.which(name, path=f"{home}/bin")) or shutil.which(name)
    assert found, (
        f"{name} is not on PATH: interop tests need a JDK (11 or newer) and Maven, long ones Node.js, cargo"
    )
    return found
