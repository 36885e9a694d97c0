# mypy: ignore-errors
"""What kernels in training do to rows of whole vectors: of a loop over sixteen numbers a compiler makes a scalar one.

A row begins somewhere in an array and holds `count` numbers, rounded up to whole vectors.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.lanes import Lanes


class _Row:
    """A vector's place in the rows of several arrays: operands by number, and factors, the same in every lane."""

    def __init__(self, lanes, starts, at, factors):
        self.v, self.starts, self.at, self.factors = lanes, starts, at, factors

    def load(self, *numbers):
        found = [self.v.load(self.starts[number], self.at) for number in numbers]
        return found if len(found) > 1 else found[0]

    def store(self, number, value):
        self.v.store(value, self.starts[number], self.at)


def _vectors(builder, v, count):
    """How many vectors hold so many numbers."""
    return builder.sdiv(builder.add(count, ir.Constant(count.type, v.count - 1)), ir.Constant(count.type, v.count))


def _along(body):
    """An intrinsic (arrays, places, factors, count): the body for every vector of a row of each array.

    places: where the rows begin. factors: numbers of the arrays' type.
    """

    @intrinsic
    def run(typing_context, arrays, places, factors, count):
        def codegen(context, builder, signature, args):
            kinds = list(signature.args[0])
            values, places = (cgutils.unpack_tuple(builder, args[i], len(kinds)) for i in (0, 1))
            v = Lanes(context, builder, kinds[0].dtype, REGISTER_BYTES)
            starts = [v.start(*each) for each in zip(kinds, values, places, strict=True)]
            given = [v.everywhere(f) for f in cgutils.unpack_tuple(builder, args[2], len(signature.args[2]))]
            with cgutils.for_range(builder, _vectors(builder, v, args[3])) as loop:
                body(_Row(v, starts, builder.mul(loop.index, ir.Constant(args[3].type, v.count)), given))
            return context.get_dummy_value()

        numbers = types.UniTuple(arrays[0].dtype, len(factors)) if len(factors) else factors
        return types.void(arrays, places, numbers, types.intp), codegen

    return run


def _sigmoid(v, x):
    return v.damped(v.constant(1.0), v.mul(x, v.constant(-LOG2E)))


def _silu_slope(v, x, open_):
    """The derivative of silu from sigmoid(x) = open_: s + x s (1 - s)"""
    return v.add(open_, v.mul(v.mul(x, open_), v.sub(v.constant(1.0), open_)))


@_along
def scale(row):
    a, out = range(2)
    row.store(out, row.v.mul(row.factors[0], row.load(a)))


@_along
def mix(row):
    a, b, out = range(3)
    (of_a, of_b), v = row.factors, row.v
    row.store(out, v.add(v.mul(of_a, row.load(a)), v.mul(of_b, row.load(b))))


@_along
def multiply(row):
    a, b, out = range(3)
    row.store(out, row.v.mul(row.load(a), row.load(b)))


@_along
def grow(row):
    """out += a b"""
    a, b, out = range(3)
    row.store(out, row.v.add(row.load(out), row.v.mul(row.load(a), row.load(b))))


@_along
def add(row):
    a, out = range(2)
    row.store(out, row.v.add(row.load(out), row.load(a)))


@_along
def silu(row):
    a, out = range(2)
    row.store(out, row.v.silu(row.load(a)))


@_along
def softplus(row):
    a, out = range(2)
    row.store(out, row.v.softplus(row.load(a)))


@_along
def silu_and_slope(row):
    """In the place of a its silu, and beside it the derivative."""
    a, slope = range(2)
    x = row.load(a)
    open_ = _sigmoid(row.v, x)
    row.store(a, row.v.mul(x, open_))
    row.store(slope, _silu_slope(row.v, x, open_))


@_along
def gate(row):
    """q = (y + skip x) silu(z)"""
    y, skip, x, z, q = range(5)
    v = row.v
    value = v.add(row.load(y), v.mul(row.load(skip), row.load(x)))
    row.store(q, v.mul(value, v.silu(row.load(z))))


@_along
def normalize(row):
    """out = factor q weight"""
    q, weight, out = range(3)
    row.store(out, row.v.mul(row.v.mul(row.factors[0], row.load(q)), row.load(weight)))


@_along
def gate_again(row):
    """q as in `gate`, the gradient g weight of what the norm gave, and the derivatives of q by y and by z."""
    y, skip, x, z, weight, g, q, weighed, by_y, by_z = range(10)
    v = row.v
    value, given = v.add(row.load(y), v.mul(row.load(skip), row.load(x))), row.load(z)
    open_ = _sigmoid(v, given)
    silu = v.mul(given, open_)
    row.store(q, v.mul(value, silu))
    row.store(weighed, v.mul(row.load(g), row.load(weight)))
    row.store(by_y, silu)
    row.store(by_z, v.mul(value, _silu_slope(v, given, open_)))


@_along
def through_norm(row):
    """gq = r weighed - c q for factors r, c; then the gradients of y and z, and that of the norm's weight, which grows."""
    q, weighed, g, by_y, by_z, gy, gz, gweight = range(8)
    (r, c), v = row.factors, row.v
    normed = row.load(q)
    of_q = v.sub(v.mul(r, row.load(weighed)), v.mul(c, normed))
    row.store(gy, v.mul(of_q, row.load(by_y)))
    row.store(gz, v.mul(of_q, row.load(by_z)))
    row.store(gweight, v.add(row.load(gweight), v.mul(v.mul(r, row.load(g)), normed)))


@intrinsic
def dot(typing_context, a, a_at, b, b_at, count):
    """The sum of the products of two rows."""

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, a.dtype, REGISTER_BYTES)
        one, other = v.start(a, args[0], args[1]), v.start(b, args[2], args[3])
        total = v.variable(v.zero())
        with cgutils.for_range(builder, _vectors(builder, v, args[4])) as loop:
            at = builder.mul(loop.index, ir.Constant(args[4].type, v.count))
            builder.store(v.add(builder.load(total), v.mul(v.load(one, at), v.load(other, at))), total)
        return v.total(builder.load(total))

    n = types.intp
    return a.dtype(a, n, b, n, n), codegen


@intrinsic
def convolve(typing_context, u, u_at, stride, taps, k, bias, out, out_at, rows, count):
    """out_t = bias + sum over i < k of taps_i u_{t+i}: rows of u and out are `stride` apart, taps (k, stride)."""

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, u.dtype, REGISTER_BYTES)
        stride, k, rows, count = args[2], args[4], args[8], args[9]
        source, target = v.start(u, args[0], args[1]), v.start(out, args[6], args[7])
        weights, shift = v.start(taps, args[3]), v.start(bias, args[5])
        with cgutils.for_range(builder, rows) as row, cgutils.for_range(builder, _vectors(builder, v, count)) as loop:
            at = builder.mul(loop.index, ir.Constant(count.type, v.count))
            here = builder.add(at, builder.mul(row.index, stride))
            total = v.variable(v.load(shift, at))
            with cgutils.for_range(builder, k) as tap:
                far = builder.mul(tap.index, stride)
                term = v.mul(v.load(weights, builder.add(at, far)), v.load(source, builder.add(here, far)))
                builder.store(v.add(builder.load(total), term), total)
            v.store(builder.load(total), target, here)
        return context.get_dummy_value()

    n = types.intp
    return types.void(u, n, n, taps, n, bias, out, n, n, n), codegen


@intrinsic
def correlate(typing_context, a, a_at, b, b_at, stride, rows, out, out_at, count):
    """out += sum over rows of a_t b_t, number by number; rows are `stride` apart."""

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, a.dtype, REGISTER_BYTES)
        one, other, target = (v.start(signature.args[i], args[i], args[i + 1]) for i in (0, 2, 6))
        stride, rows, count = args[4], args[5], args[8]
        with cgutils.for_range(builder, _vectors(builder, v, count)) as loop:
            at = builder.mul(loop.index, ir.Constant(count.type, v.count))
            total = v.variable(v.load(target, at))
            with cgutils.for_range(builder, rows) as row:
                here = builder.add(at, builder.mul(row.index, stride))
                builder.store(v.add(builder.load(total), v.mul(v.load(one, here), v.load(other, here))), total)
            v.store(builder.load(total), target, at)
        return context.get_dummy_value()

    n = types.intp
    return types.void(a, n, b, n, n, n, out, n, n), codegen
