"""How kernels read and write the arrays that they are given, and the big-endian numbers of disk and wire."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.np import arrayobj

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.jit import array_maker, inlined, int16, int32, intrinsic, uint8, uint64, uintp
from cometmq.kernels.compiling.signatures import none, types

populate_array: Any = arrayobj.populate_array


def array_of(element: Any, columns: int = 0) -> Callable[[Longs, int], Any]:
    """Return what gives a kernel one of the arrays of an ``ArrayTable``: of the numbers, and which one.

    Args:
        element: the type of its items.
        columns: of an array with two dimensions the length of the second one.
    """
    array = types.Array(element, 2 if columns else 1, "C")

    @intrinsic
    def get(_: Any, table: Any, number: Any) -> Any:  # noqa: ARG001  its type is asked for
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            at = builder.shl(arguments[1], ir.Constant(arguments[1].type, 1))
            address = builder.load(builder.gep(numbers, [at]))
            length = builder.load(builder.gep(numbers, [builder.add(at, ir.Constant(at.type, 1))]))
            size = context.get_abi_sizeof(context.get_data_type(element))
            constant = partial(context.get_constant, types.intp)
            shape, strides = [length], [constant(size)]
            if columns:
                shape, strides = [*shape, constant(columns)], [constant(columns * size), *strides]
            made = context.make_array(array)(context, builder)
            data = builder.inttoptr(address, made.data.type)
            populate_array(made, data, shape, strides, itemsize=constant(size), meminfo=None)
            return made._getvalue()  # noqa: SLF001  as Numba's own code makes arrays

        return array(table, types.int64), generate

    made: Callable[[Longs, int], Any] = get
    return made


bytes_of = array_of(types.uint8)
longs_of = array_of(types.int64)


@intrinsic
def lowest_bit(_: Any, number: Any) -> Any:
    """Return the position of the lowest bit that is set in a number other than 0: one instruction."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return number(number), generate


@intrinsic
def fetch_soon(_: Any, buffer: Any, position: Any) -> Any:
    """Prefetch the cache line that holds a byte of a buffer; a position outside the buffer does no harm."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        name, kinds = "llvm.prefetch.p0", [place.type, number, number, number]
        fetch = builder.module.declare_intrinsic(name, (), ir.FunctionType(ir.VoidType(), kinds))
        builder.call(fetch, [place, *(ir.Constant(number, value) for value in (0, 3, 1))])  # read, keep, data
        return context.get_dummy_value()

    return none(buffer, position), generate


@inlined
def byte_at(buffer: Bytes, position: int) -> Any:
    """Read a byte; the unsigned index saves Numba's test for negative ones, which costs a third."""
    return buffer[uintp(position)]


@inlined
def short_at(buffer: Bytes, position: int) -> Any:
    """Read a big-endian int16."""
    return int16(byte_at(buffer, position) << 8 | byte_at(buffer, position + 1))


@inlined
def int_at(buffer: Bytes, position: int) -> Any:
    """Read a big-endian int32."""
    return int32(
        byte_at(buffer, position) << 24
        | byte_at(buffer, position + 1) << 16
        | byte_at(buffer, position + 2) << 8
        | byte_at(buffer, position + 3)
    )


@inlined
def long_at(buffer: Bytes, position: int) -> Any:
    """Read a big-endian int64."""
    return int_at(buffer, position) << 32 | int_at(buffer, position + 4) & 0xFFFFFFFF


@inlined
def word_at(buffer: Bytes, position: int) -> Any:
    """Read a little-endian uint64: one load."""
    word = uint64(0)
    for i in range(8):
        word |= uint64(byte_at(buffer, position + i)) << uint64(8 * i)
    return word


@inlined
def put_word(buffer: Bytes, position: int, word: Any) -> None:
    """Write a little-endian uint64, which ``word_at`` reads."""
    for i in range(8):
        buffer[uintp(position + i)] = uint8(word >> uint64(8 * i))


@inlined
def put_int(buffer: Bytes, position: int, value: int) -> None:
    """Write a big-endian int32."""
    for i in range(4):
        buffer[uintp(position + i)] = uint8(value >> (24 - 8 * i))


@inlined
def put_long(buffer: Bytes, position: int, value: int) -> None:
    """Write a big-endian int64."""
    for i in range(8):
        buffer[uintp(position + i)] = uint8(value >> (56 - 8 * i))


@inlined
def copy_bytes(source: Bytes, begin: int, end: int, out: Bytes, at: int) -> Any:
    """Copy the bytes from ``begin`` to ``end`` to ``out[at:]``; return the position after them."""
    for i in range(end - begin):
        out[uintp(at + i)] = source[uintp(begin + i)]
    return at + end - begin


@array_maker
def doubled(array: Any) -> Any:
    """Return a copy of twice the length."""
    longer = np.empty(2 * len(array), array.dtype)
    longer[: len(array)] = array
    return longer
