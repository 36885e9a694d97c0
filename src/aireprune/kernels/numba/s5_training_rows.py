# mypy: ignore-errors
"""What an S5 block in training does to the rows of a chunk besides products and scans, forwards and backwards.

    y = C x + d u      g = first gelu(y)      v = W g + bias      out = z + second y sigmoid(v)       half_glu2
                                              p, v = W g + bias   out = z + second p sigmoid(v)       full_glu

u = scale (z - mean) + constant; first, second: the factors of the two dropouts, which hold for whole sequences. Every
function is one loop over vectors of a row; what does not fill one is done number by number, by the same equations.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.constants import GELU_CUBE, GELU_SLOPE, LOG2E
from aireprune.kernels.numba.lanes import Lanes


class _Row:
    """A vector's place in the rows of several arrays: operands by number."""

    def __init__(self, lanes, starts, at):
        self.v, self.starts, self.at = lanes, starts, at

    def load(self, *numbers):
        found = [self.v.load(self.starts[number], self.at) for number in numbers]
        return found if len(found) > 1 else found[0]

    def store(self, number, value):
        self.v.store(value, self.starts[number], self.at)

    def grow(self, number, value):
        """Add to what is there."""
        self.store(number, self.v.add(self.load(number), value))

    def grow_by_product(self, number, a, b):
        self.store(number, self.v.multiply_add(a, b, self.load(number)))


def _along(body):
    """An intrinsic (arrays, places, rows, count): the body for `count` numbers of `rows` rows of every array.

    places: where the first row begins, counted in numbers. The rows of a matrix follow each other; a vector is the same
    for every row.
    """

    @intrinsic
    def run(typing_context, arrays, places, rows, count):
        def codegen(context, builder, signature, args):
            kinds = list(signature.args[0])
            values, places = (cgutils.unpack_tuple(builder, args[i], len(kinds)) for i in (0, 1))
            wide = Lanes(context, builder, kinds[0].dtype)
            one = Lanes(context, builder, kinds[0].dtype, wide.bytes)
            starts = [wide.start(*each) for each in zip(kinds, values, places, strict=True)]
            lanes = ir.Constant(args[3].type, wide.count)
            vectors = builder.sdiv(args[3], lanes)
            done = builder.mul(vectors, lanes)
            with cgutils.for_range(builder, args[2]) as row:
                lines = [
                    builder.gep(start, [builder.mul(row.index, _width(context, builder, kind, value))])
                    for start, kind, value in zip(starts, kinds, values, strict=True)
                ]
                with cgutils.for_range(builder, vectors) as loop:
                    body(_Row(wide, lines, builder.mul(loop.index, lanes)))
                with cgutils.for_range(builder, args[3], start=done) as loop:
                    body(_Row(one, lines, loop.index))
            return context.get_dummy_value()

        return types.void(arrays, places, types.intp, types.intp), codegen

    return run


def _width(context, builder, kind, value):
    """From a row to the next."""
    if kind.ndim == 1:
        return ir.Constant(ir.IntType(64), 0)
    return builder.extract_value(context.make_array(kind)(context, builder, value).shape, 1)


def _sigmoid(v, x):
    return v.damped(v.constant(1.0), v.mul(x, v.constant(-LOG2E)))


def _gelu_gate(v, y):
    """gelu(y) / y, and y^2"""
    square, slope = v.mul(y, y), -LOG2E * GELU_SLOPE
    return v.damped(v.constant(1.0), v.mul(y, v.polynomial(square, [slope, GELU_CUBE * slope]))), square


@_along
def activate(row):
    read, z, direct, first, y, g = range(6)
    value = row.v.multiply_add(row.load(direct), row.load(z), row.load(read))
    row.store(y, value)
    gate, _ = _gelu_gate(row.v, value)
    row.store(g, row.v.mul(row.v.mul(row.load(first), value), gate))


@_along
def close(row):
    z, x, v, second, gate, out = range(6)
    open_ = _sigmoid(row.v, row.load(v))
    row.store(gate, open_)
    row.store(out, row.v.multiply_add(row.v.mul(row.load(second), row.load(x)), open_, row.load(z)))


@_along
def copy(row):
    row.store(1, row.load(0))


@_along
def close_backward(row):
    """Into the gate, and what passes it."""
    grad, x, gate, second, through, inside, total = range(7)
    v, open_ = row.v, row.load(gate)
    passed = v.mul(v.mul(row.load(grad), row.load(second)), open_)
    row.store(through, passed)
    into = v.mul(v.mul(passed, row.load(x)), v.sub(v.constant(1.0), open_))
    row.store(inside, into)
    row.grow(total, into)


@_along
def gelu_again(row):
    """g once more, and the factor of its derivative."""
    y, first, g, slope = range(4)
    v, value, factor = row.v, row.load(y), row.load(first)
    gate, square = _gelu_gate(v, value)
    scaled = v.mul(factor, gate)
    row.store(g, v.mul(scaled, value))
    steep = v.mul(value, v.polynomial(square, [GELU_SLOPE, 3 * GELU_CUBE * GELU_SLOPE]))
    row.store(slope, v.mul(scaled, v.multiply_add(steep, v.sub(v.constant(1.0), gate), v.constant(1.0))))


def _make_activate_backward(straight):
    """straight: dy holds what reached y past the GELU."""

    def body(row):
        dg, slope, z, mean, dy, total, weighted = range(7)
        v = row.v
        whole = v.mul(row.load(dg), row.load(slope))
        if straight:
            whole = v.add(whole, row.load(dy))
        row.store(dy, whole)
        row.grow(total, whole)
        row.grow_by_product(weighted, whole, v.sub(row.load(z), row.load(mean)))

    return _along(body)


activate_backward, activate_backward_alone = _make_activate_backward(True), _make_activate_backward(False)


@_along
def poles(row):
    """conj(x) s, added up."""
    sr, si, xr, xi, re, im = range(6)
    v, (s_r, s_i, x_r, x_i) = row.v, row.load(sr, si, xr, xi)
    row.store(re, v.multiply_add(s_r, x_r, v.multiply_add(s_i, x_i, row.load(re))))
    row.store(im, v.sub(v.multiply_add(s_i, x_r, row.load(im)), v.mul(s_r, x_i)))


@_along
def join(row):
    s, other, total = range(3)
    both = row.v.add(row.load(s), row.load(other))
    row.store(s, both)
    row.grow(total, both)


@_along
def centre(row):
    row.store(2, row.v.sub(row.load(0), row.load(1)))


@_along
def residual(row):
    grad, du, direct, dy, dz = range(5)
    both = row.v.add(row.load(grad), row.load(du))
    row.store(dz, row.v.multiply_add(row.load(direct), row.load(dy), both))


@_along
def norm_backward(row):
    dz, z, mean, centre, tilt = range(5)
    v = row.v
    about_mean = v.multiply_add(row.load(tilt), v.sub(row.load(z), row.load(mean)), row.load(centre))
    row.store(dz, v.sub(row.load(dz), about_mean))


@_along
def add_up(row):
    row.grow(1, row.load(0))


@_along
def spread(row):
    z, mean, total = range(3)
    away = row.v.sub(row.load(z), row.load(mean))
    row.grow_by_product(total, away, away)
