# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Vectors of channels in LLVM, for the kernels whose innermost block a compiler does not arrange well by itself.

A vector is VECTOR_BYTES wide: one register with AVX-512, two with AVX2, four with NEON or SSE; LLVM splits it.
exp2, softplus, SiLU and GELU are branch-free polynomials, accurate to a few units in the last place;
`aireprune.kernels.numba.math` has the same functions for loops that a compiler vectorises.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils

from aireprune.kernels.numba.constants import GELU_CUBE, GELU_SLOPE, LOG2E, interpolation
from aireprune.kernels.numba.cpu import SPLITS_EXPONENTS

VECTOR_BYTES = 64


def lane_count(dtype: np.dtype) -> int:
    """W: how many values of a floating point type a vector holds."""
    return VECTOR_BYTES // np.dtype(dtype).itemsize


def _log1p_over(t):
    return np.log1p(t) / t


# by bytes of the type: 2^r on [0, 1] and on [-1/2, 1/2], and log1p(t) / t on [0, 1]
_EXP2_UP = {4: interpolation(np.exp2, 5, 0, 1), 8: interpolation(np.exp2, 12, 0, 1)}
_EXP2_AROUND = {4: interpolation(np.exp2, 5, -0.5, 0.5), 8: interpolation(np.exp2, 12, -0.5, 0.5)}
_LOG1P = {4: interpolation(_log1p_over, 8, 0, 1), 8: interpolation(_log1p_over, 20, 0, 1)}
_DOWN = 0b1001  # round down, raise nothing
_MANTISSA = {4: 23, 8: 52}
_SMALLEST = {4: -126.0, 8: -1022.0}  # exponents of the smallest normal number


class Lanes:
    """Loads, stores, arithmetic and functions of vectors; every array is addressed from its first element on."""

    def __init__(self, context, builder, element, vector_bytes=VECTOR_BYTES):
        self.context, self.builder = context, builder
        self.element = context.get_data_type(element)
        self.bytes = element.bitwidth // 8
        self.count = vector_bytes // self.bytes
        self.vector = ir.VectorType(self.element, self.count)
        self.word = ir.IntType(8 * self.bytes)
        self.words = ir.VectorType(self.word, self.count)
        self.splits_exponents = SPLITS_EXPONENTS and vector_bytes == VECTOR_BYTES

    # addresses

    def start(self, array_type, value, offset=None):
        """The address of an array's element number `offset`."""
        data = self.context.make_array(array_type)(self.context, self.builder, value).data
        return data if offset is None else self.builder.gep(data, [offset])

    def rows(self, array_type, value):
        """The array in rows of one vector each, for `load_row` and `store_row`."""
        return self.builder.bitcast(self.start(array_type, value), self.vector.as_pointer())

    def index(self, base, factor, offset):
        scaled = self.builder.mul(base, ir.Constant(base.type, factor))
        return self.builder.add(scaled, ir.Constant(base.type, offset))

    # memory

    def load_row(self, rows, index):
        value = self.builder.load(self.builder.gep(rows, [index]))
        value.align = self.bytes
        return value

    def store_row(self, value, rows, index):
        self.builder.store(value, self.builder.gep(rows, [index])).align = self.bytes

    def load(self, pointer, index):
        """The vector that starts at element `index` behind a pointer to elements."""
        at = self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())
        return self.load_row(at, ir.Constant(index.type, 0))

    def store(self, value, pointer, index):
        at = self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())
        self.store_row(value, at, ir.Constant(index.type, 0))

    def broadcast(self, pointer, index):
        """Element `index` in every lane."""
        return self.everywhere(self.builder.load(self.builder.gep(pointer, [index])))

    def everywhere(self, value):
        """A number in every lane."""
        undefined, zero = ir.Constant(self.vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.count), [zero] * self.count)
        return self.builder.shuffle_vector(self.builder.insert_element(undefined, value, zero), undefined, mask)

    def prefetch(self, pointer, index):
        """Ask for a cache line; addresses that do not exist are harmless."""
        byte_pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        function = self.builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
        address = self.builder.bitcast(self.builder.gep(pointer, [index]), byte_pointer)
        self.builder.call(function, [address, *(ir.Constant(word, flag) for flag in (0, 3, 1))])

    def variable(self, value):
        slot = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(value, slot)
        return slot

    # arithmetic; a product and a sum may become one rounding

    def constant(self, value):
        return ir.Constant(self.vector, [ir.Constant(self.element, float(np.float32(value)) if self.bytes == 4 else value)]
                           * self.count)  # fmt: skip

    def zero(self):
        return self.constant(0.0)

    def mul(self, a, b):
        return self.builder.fmul(a, b, flags=("contract",))

    def add(self, a, b):
        return self.builder.fadd(a, b, flags=("contract",))

    def sub(self, a, b):
        return self.builder.fsub(a, b, flags=("contract",))

    def multiply_add(self, a, b, c):
        """a b + c: one instruction where the processor has it, else a product and a sum."""
        name = f"llvm.fmuladd.v{self.count}f{8 * self.bytes}"
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, signature, name), [a, b, c])

    def total(self, x):
        """The sum of the lanes, a number: halves are added until one lane is left."""
        half = self.count // 2
        while half:
            lanes = [ir.Constant(ir.IntType(32), (lane + half) % self.count) for lane in range(self.count)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), self.count), lanes)
            x = self.add(x, self.builder.shuffle_vector(x, ir.Constant(self.vector, ir.Undefined), mask))
            half //= 2
        return self.builder.extract_element(x, ir.Constant(ir.IntType(32), 0))

    def rotate(self, lr, li, xr, xi):
        """lam x, complex"""
        return self.sub(self.mul(lr, xr), self.mul(li, xi)), self.add(self.mul(lr, xi), self.mul(li, xr))

    def larger(self, a, b):
        """The larger of the two; a where either is NaN."""
        return self.builder.select(self.builder.fcmp_unordered(">", a, b), a, b)

    def smaller(self, a, b):
        """The smaller of the two; a where either is NaN."""
        return self.builder.select(self.builder.fcmp_unordered("<", a, b), a, b)

    def magnitude(self, x):
        mask = ir.Constant(self.words, [ir.Constant(self.word, (1 << (8 * self.bytes - 1)) - 1)] * self.count)
        return self.builder.bitcast(self.builder.and_(self.builder.bitcast(x, self.words), mask), self.vector)

    def polynomial(self, x, coefficients):
        value = self.constant(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.add(self.mul(value, x), self.constant(coefficient))
        return value

    # functions

    def exp2(self, u):
        """2^u for u below the overflow; results below the smallest normal number come out as that, or as zero."""
        return self._exp2_by_parts(u) if self.splits_exponents else self._exp2_by_bits(u)

    def _exp2_by_parts(self, u):
        """2^(u - floor(u)) times 2^floor(u): one instruction for each of the two parts."""
        fraction = self._avx512("reduce", u, ir.Constant(ir.IntType(32), _DOWN))
        return self._avx512("scalef", self.polynomial(fraction, _EXP2_UP[self.bytes]), u)

    def _avx512(self, name, *operands):
        """An AVX-512 instruction on all lanes, in the current rounding mode."""
        kind = {4: "ps", 8: "pd"}[self.bytes]
        every, rounding = ir.Constant(ir.IntType(self.count), -1), ir.Constant(ir.IntType(32), 4)
        arguments = [*operands, self.zero(), every, rounding]
        signature = ir.FunctionType(self.vector, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(
            self.builder.module, signature, f"llvm.x86.avx512.mask.{name}.{kind}.512"
        )
        return self.builder.call(function, arguments)

    def _exp2_by_bits(self, u):
        """Adding 1.5 * 2^mantissa rounds u to an integer, which then fills the lowest bits. Adding and subtracting it must
        not be simplified, so these operations carry no flags, and the kernels no fast-math.
        """
        mantissa = _MANTISSA[self.bytes]
        u, magic = self.larger(u, self.constant(_SMALLEST[self.bytes])), self.constant(1.5 * 2**mantissa)
        shifted = self.builder.fadd(u, magic)
        r = self.builder.fsub(u, self.builder.fsub(shifted, magic))
        shift = ir.Constant(self.words, [ir.Constant(self.word, mantissa)] * self.count)
        exponent = self.builder.shl(self.builder.bitcast(shifted, self.words), shift)
        scaled = self.builder.add(
            self.builder.bitcast(self.polynomial(r, _EXP2_AROUND[self.bytes]), self.words), exponent
        )
        return self.builder.bitcast(scaled, self.vector)

    def softplus(self, x):
        """log(1 + e^x) = max(x, 0) + log1p(t), t = e^-|x|"""
        t = self.exp2(self.mul(self.magnitude(x), self.constant(-LOG2E)))
        above = self.builder.fcmp_ordered(">", x, self.zero())  # false for NaN, which reaches the sum through t
        positive = self.builder.select(above, x, self.zero())
        return self.add(self.mul(t, self.polynomial(t, _LOG1P[self.bytes])), positive)

    def damped(self, x, u):
        """x / (1 + 2^u); a division occupies a unit of its own, beside the ones that multiply."""
        if not self.splits_exponents:
            u = self.smaller(u, self.constant(-_SMALLEST[self.bytes]))
        return self.builder.fdiv(x, self.add(self.constant(1.0), self.exp2(u)))

    def gated(self, x, gate):
        """x sigmoid(gate)"""
        return self.damped(x, self.mul(gate, self.constant(-LOG2E)))

    def silu(self, x):
        return self.gated(x, x)

    def gelu(self, x):
        """x (1 + tanh(a)) / 2 = x sigmoid(2a) with a = sqrt(2/pi) (x + 0.044715 x^3)"""
        slope = -LOG2E * GELU_SLOPE
        return self.damped(x, self.mul(x, self.polynomial(self.mul(x, x), [slope, GELU_CUBE * slope])))


@njit(inline="always")
def aligned_rows(rows, width, dtype):
    """Zeros (rows, width) that start at a vector boundary: a vector across two cache lines costs two accesses."""
    size = rows * width
    items = np.zeros(size + VECTOR_BYTES, dtype)
    skip = (-items.ctypes.data % VECTOR_BYTES) // items.itemsize
    return items[skip : skip + size].reshape(rows, width)
