"""Folding blocks of bytes for a CRC-32 by carry-less products, where the processor has them.

A block of sixteen bytes that is ``d`` bits before another is worth as much as its product with x^d, modulo
the polynomial. So many blocks can be added up into one. Four sums run side by side, because a product takes
some cycles, but a new one can begin in each. The last block is reduced to 64 bits by two more products, and
to the CRC by Barrett's two, which need no division and no table. (V. Gopal et al., "Fast CRC Computation
for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.)
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from cometmq.kernels.compiling.jit import compiles_for, intrinsic
from cometmq.kernels.compiling.signatures import types

FOLDS: Final = compiles_for("pclmul")
"""Whether the processor that is compiled for has carry-less products, so that ``folded`` can be called."""
POLYNOMIAL: Final = 0xEDB88320
BLOCK: Final = 16
LANES: Final = 4
STRIDE: Final = LANES * BLOCK
"""The fewest bytes that ``folded`` accepts."""

_INDEX: Final = ir.IntType(32)
_WORD: Final = ir.IntType(64)
_PAIR: Final = ir.VectorType(_WORD, 2)
_QUARTERS: Final = ir.VectorType(_INDEX, 4)
_BARRETT: Final = ir.Constant(_PAIR, [0x1F7011641, POLYNOMIAL << 1 | 1])
"""x^64 divided by the polynomial, and the polynomial: 33 bits each, the lowest power in the highest."""
_SELECTOR: Final = ir.IntType(8)
_BOTH_LOW: Final = ir.Constant(_SELECTOR, 0x00)
_BOTH_HIGH: Final = ir.Constant(_SELECTOR, 0x11)
_HIGH_BY_LOW: Final = ir.Constant(_SELECTOR, 0x10)
"""The second factor's high half by the first one's low."""
_PRODUCT: Final = ir.FunctionType(_PAIR, [_PAIR, _PAIR, _SELECTOR])


@intrinsic
def folded(_: Any, buffer: Any, position: Any, length: Any, crc: Any) -> Any:  # noqa: ARG001  for Numba
    """Compute the CRC of the whole blocks within ``length`` bytes, after ``crc``; neither is inverted."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, begin, size, before = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        folding = _Folding(builder, data)
        return folding.reduced(folding.total(begin, builder.add(begin, size), before))

    return types.uint32(buffer, types.int64, types.int64, types.uint64), generate


class _Folding:
    """Generates the instructions of a folding."""

    def __init__(self, builder: Any, data: Any) -> None:
        self._builder = builder
        self._data = data
        self._product = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), _PRODUCT)

    def total(self, begin: Any, end: Any, crc: Any) -> Any:
        """Add up four lanes of blocks, then the lanes, then the blocks after the last stride."""
        builder = self._builder
        first = builder.insert_element(ir.Constant(_PAIR, [0, 0]), crc, _INDEX(0))
        lanes = [self._block(begin, BLOCK * lane) for lane in range(LANES)]
        lanes[0] = builder.xor(lanes[0], first)

        def stride(at: Any, lanes: list[Any]) -> list[Any]:
            return [self._next(one, STRIDE, self._block(at, BLOCK * n)) for n, one in enumerate(lanes)]

        at, lanes = self._loop(builder.add(begin, _WORD(STRIDE)), end, STRIDE, lanes, stride)
        total = lanes[0]
        for lane in lanes[1:]:
            total = self._next(total, BLOCK, lane)
        _, (total,) = self._loop(
            at, end, BLOCK, [total], lambda at, sums: [self._next(sums[0], BLOCK, self._block(at))]
        )
        return total

    def reduced(self, block: Any) -> Any:
        """Compute the CRC of one block: the remainder of its 128 bits and of 32 zero bits after them."""
        builder = self._builder
        powers = ir.Constant(_PAIR, [_power(128 - 32), _power(64)])
        shorter = self._multiplied(block, powers, _BOTH_LOW)
        shorter = builder.xor(shorter, self._shifted(block, 2))  # 96 bits
        longest = self._multiplied(self._lowest(shorter), powers, _HIGH_BY_LOW)
        shorter = builder.xor(longest, self._shifted(shorter, 1))  # 64 bits
        quotient = self._multiplied(self._lowest(shorter), _BARRETT, _BOTH_LOW)
        multiple = self._multiplied(self._lowest(quotient), _BARRETT, _HIGH_BY_LOW)
        words = builder.bitcast(builder.xor(shorter, multiple), _QUARTERS)
        return builder.extract_element(words, _INDEX(1))

    def _multiplied(self, pair: Any, factors: Any, halves: Any) -> Any:
        return self._builder.call(self._product, [pair, factors, halves])

    def _shifted(self, pair: Any, quarters: int) -> Any:
        """Drop the lowest quarters of 128 bits."""
        builder, none = self._builder, ir.Constant(_QUARTERS, [0] * 4)
        kept = ir.Constant(_QUARTERS, [n + quarters for n in range(4)])
        return builder.bitcast(builder.shuffle_vector(builder.bitcast(pair, _QUARTERS), none, kept), _PAIR)

    def _lowest(self, pair: Any) -> Any:
        """Keep the lowest 32 bits of each half."""
        return self._builder.and_(pair, ir.Constant(_PAIR, [0xFFFFFFFF] * 2))

    def _block(self, at: Any, offset: int = 0) -> Any:
        """Load the block at ``at + offset``."""
        builder = self._builder
        place = builder.gep(self._data, [builder.add(at, _WORD(offset))])
        return builder.load(builder.bitcast(place, ir.PointerType(_PAIR)), align=1)

    def _next(self, sum_before: Any, distance: int, block: Any) -> Any:
        """Add a sum to the block that is ``distance`` bytes after it."""
        builder, bits = self._builder, 8 * distance
        powers = ir.Constant(_PAIR, [_power(bits + 32), _power(bits - 32)])
        low = self._multiplied(sum_before, powers, _BOTH_LOW)
        high = self._multiplied(sum_before, powers, _BOTH_HIGH)
        return builder.xor(builder.xor(low, high), block)

    def _loop(
        self, at: Any, end: Any, step: int, values: list[Any], turn: Callable[[Any, list[Any]], list[Any]]
    ) -> tuple[Any, list[Any]]:
        """Loop while ``step`` bytes are left; return the position where it ends, and the values then."""
        builder, before = self._builder, self._builder.block
        head, body, behind = (builder.append_basic_block(name) for name in ("head", "body", "behind"))
        builder.branch(head)
        builder.position_at_end(head)
        held = [builder.phi(value.type) for value in (at, *values)]
        for phi, value in zip(held, (at, *values), strict=True):
            phi.add_incoming(value, before)
        place, *sums = held
        following = builder.add(place, _WORD(step))
        builder.cbranch(builder.icmp_signed("<=", following, end), body, behind)
        builder.position_at_end(body)
        for phi, value in zip(held, (following, *turn(place, sums)), strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(behind)
        return place, sums


def _power(bits: int) -> int:
    """Return x^bits modulo the polynomial, the lowest power in the highest of 33 bits, for ``_PRODUCT``."""
    value = 1 << 31
    for _ in range(bits):
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return value << 1
