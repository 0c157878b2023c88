"""Compiling kernels, and the functions that they call.

A kernel has one explicit signature: importing its module compiles it or loads its machine code from a
file (``machine_code``), so no call ever compiles. It releases the GIL, so a thread can scan while the event
loop runs. The functions that kernels call are compiled into them (``inlined``) and not cached themselves.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from llvmlite import binding

from cometmq.kernels.compiling import machine_code

P = ParamSpec("P")
R = TypeVar("R")

intrinsic: Any = numba.extending.intrinsic
config: Any = numba.config
njit: Any = numba.njit  # whose stubs lack some of its parameters

# Inside kernels these convert. To mypy they are Any, because to Numba the results are plain numbers.
int8: Any = np.int8
int16: Any = np.int16
int32: Any = np.int32
int64: Any = np.int64
uint8: Any = np.uint8
uint32: Any = np.uint32
uint64: Any = np.uint64
uintp: Any = np.uintp


def kernel(signature: object, *, makes_arrays: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for one signature, or load its machine code.

    Args:
        makes_arrays: whether the kernel creates arrays. Only then are references to arrays counted, which
            takes a locked instruction for each array passed on: two fifths of the cost of a send. The arrays
            passed to a kernel are held by its caller.
    """

    def compile_now(function: Callable[P, R]) -> Callable[P, R]:
        dispatcher = njit(nogil=True, error_model="numpy", _nrt=makes_arrays)(function)
        if not config.DISABLE_JIT:
            machine_code.use_kernel_file(dispatcher)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        made: Callable[P, R] = dispatcher
        return made

    return compile_now


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that kernels may call, and that creates no arrays.

    It is inlined: passing on arrays in a call, seven words each, costs more than most of these functions do.
    """
    compiled: Callable[P, R] = njit(nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function)
    return compiled


def array_maker(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that creates arrays, for kernels with ``makes_arrays``."""
    compiled: Callable[P, R] = njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return compiled


def compiles_for(feature: str) -> bool:
    """Return whether kernels are compiled for a processor that has a feature, in LLVM's spelling."""
    chosen = config.CPU_FEATURES  # by NUMBA_CPU_NAME and NUMBA_CPU_FEATURES
    features = binding.get_host_cpu_features().flatten() if chosen is None else chosen
    return f"+{feature}" in features.split(",")
