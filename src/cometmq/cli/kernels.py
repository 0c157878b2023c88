"""``cometmq kernels``: compile the bulk operations in advance, into a folder that can be copied."""

import time
from pathlib import Path

import click

from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.paths import NamedPath
from cometmq.errors import SettingsError
from cometmq.extras import require

SETTING = "COMETMQ_KERNELS_CACHE"


@click.command()
@click.option(
    "--output",
    type=NamedPath(file_okay=False),
    help="Output folder, created if missing.  [default: beside the package, else your cache]",
)
@click.option(
    "--native",
    is_flag=True,
    help="With --output: for exactly this processor, instead of any server of the last ten years.",
)
@json_option
def kernels(output: Path | None, native: bool, as_json: bool) -> None:
    """Compile the bulk operations of broker, store and Spark in advance, so that they load in half a second.

    Otherwise a broker compiles them in the background, for a minute or two, when it finds none.

    The folder can be copied: into an image, to other machines, for other users, who may have no home
    directory and need only read it. COMETMQ_KERNELS_CACHE=DIR names it. It fits the versions of CometMQ,
    Python, numba and numpy with which it was made, wherever they are installed.
    """
    require("fast", "cometmq kernels")
    began = time.monotonic()
    if native and output is None:
        raise SettingsError("--native needs --output; without it the kernels are for this machine anyway")
    made = _compile(output, native=native)
    if as_json:
        print_json({"path": str(made), "seconds": round(time.monotonic() - began, 1)})
        return
    print_line(f"{made}: {sum(1 for _ in made.iterdir())} kernels, {time.monotonic() - began:.1f} s")
    if output is not None:
        print_line(f"set {SETTING}={output.absolute()} to use them, or the path of a copy")


def _compile(output: Path | None, *, native: bool) -> Path:
    """Compile the missing kernels, and return their directory."""
    from cometmq.kernels.compiling import cache, machine_code  # noqa: PLC0415 - the help must not wait for Numba

    if output is not None:
        processor = machine_code.this_processor() if native else machine_code.portable_processor()
        if processor is None:
            raise SettingsError("this processor cannot make code for other machines: use --native")
        return cache.compile_into(output, processor)
    if cache.find() is None:
        cache.load_compiled(for_all_users=True)
    found = cache.find()
    assert found is not None
    return found
