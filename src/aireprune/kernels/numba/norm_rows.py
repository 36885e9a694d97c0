# mypy: ignore-errors
"""Layer norm and RMS norm of rows and their gradients, in vectors: of loops with sums over a short row a compiler makes slow
ones.

Rows are h numbers wide and follow each other from a place on, counted in numbers.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.lanes import Lanes


class _Rows:
    """Loops over the h numbers of a row: whole vectors, then what is left one by one."""

    def __init__(self, context, builder, kind, h):
        self.builder, self.h = builder, h
        self.wide = Lanes(context, builder, kind)
        self.one = Lanes(context, builder, kind, self.wide.bytes)
        self.lanes = ir.Constant(h.type, self.wide.count)
        self.vectors = builder.sdiv(h, self.lanes)

    def along(self, body):
        """body(lanes, place) for every vector."""
        with cgutils.for_range(self.builder, self.vectors) as loop:
            body(self.wide, self.builder.mul(loop.index, self.lanes))
        with cgutils.for_range(self.builder, self.h, start=self.builder.mul(self.vectors, self.lanes)) as loop:
            body(self.one, loop.index)

    def sums(self, count, body):
        """The sums over the row of the `count` values that body(lanes, place) gives for every vector."""
        totals = {v: [v.variable(v.zero()) for _ in range(count)] for v in (self.wide, self.one)}

        def add(v, at):
            for slot, value in zip(totals[v], body(v, at), strict=True):
                self.builder.store(v.add(self.builder.load(slot), value), slot)

        self.along(add)
        parts = [[v.total(self.builder.load(slot)) for slot in slots] for v, slots in totals.items()]
        return [self.builder.fadd(a, b) for a, b in zip(*parts, strict=True)]

    def moments(self, row, eps):
        """The mean of a row, and what its distances from it are multiplied by."""
        builder, kind = self.builder, self.wide.element
        count = builder.sitofp(self.h, kind)
        mean = builder.fdiv(self.sums(1, lambda v, at: [v.load(row, at)])[0], count)

        def square(v, at):
            away = v.sub(v.load(row, at), v.everywhere(mean))
            return [v.mul(away, away)]

        return mean, self.inverse_root(builder.fadd(builder.fdiv(self.sums(1, square)[0], count), eps)), count

    def inverse_root(self, value):
        kind = self.wide.element
        root = self.builder.call(self.builder.module.declare_intrinsic("llvm.sqrt", [kind]), [value])
        return self.builder.fdiv(ir.Constant(kind, 1.0), root)

    def length(self, row, eps):
        """What the numbers of a row are multiplied by for their mean square to be 1."""

        def square(v, at):
            value = v.load(row, at)
            return [v.mul(value, value)]

        count = self.builder.sitofp(self.h, self.wide.element)
        mean = self.builder.fdiv(self.sums(1, square)[0], count)
        return self.inverse_root(self.builder.fadd(mean, eps)), count


@intrinsic
def normalize(typing_context, z, at, weight, bias, eps, rows, h):
    """Rows of z, in place, to mean 0 and variance 1, times the weight, plus the bias. eps: of the kind of z."""

    def codegen(context, builder, signature, args):
        each = _Rows(context, builder, z.dtype, args[6])
        start, w, b = (
            each.wide.start(z, args[0], args[1]),
            each.wide.start(weight, args[2]),
            each.wide.start(bias, args[3]),
        )
        with cgutils.for_range(builder, args[5]) as loop:
            row = builder.gep(start, [builder.mul(loop.index, each.h)])
            mean, factor, _ = each.moments(row, args[4])

            def store(v, at):
                away = v.mul(v.sub(v.load(row, at), v.everywhere(mean)), v.everywhere(factor))
                v.store(v.multiply_add(away, v.load(w, at), v.load(b, at)), row, at)

            each.along(store)
        return context.get_dummy_value()

    n = types.intp
    return types.void(z, n, weight, bias, z.dtype, n, n), codegen


@intrinsic
def backward(typing_context, grad, grad_at, s, weight, eps, ds, of_weight, of_bias, rows, h):
    """From the gradient of the norm's result to that of what it was made of, s, rows from 0 on; both from grad_at on. s is
    overwritten; the gradients of weight and bias are added up."""

    def codegen(context, builder, signature, args):
        each = _Rows(context, builder, s.dtype, args[9])
        grads, found = each.wide.start(grad, args[0], args[1]), each.wide.start(ds, args[5], args[1])
        rows_s, w = each.wide.start(s, args[2]), each.wide.start(weight, args[3])
        total_w, total_b = each.wide.start(of_weight, args[6]), each.wide.start(of_bias, args[7])
        with cgutils.for_range(builder, args[8]) as loop:
            here = builder.mul(loop.index, each.h)
            given, row, into = (builder.gep(start, [here]) for start in (grads, rows_s, found))
            mean, factor, count = each.moments(row, args[4])

            def weigh(v, at):
                away = v.mul(v.sub(v.load(row, at), v.everywhere(mean)), v.everywhere(factor))
                g = v.load(given, at)
                weighted = v.mul(g, v.load(w, at))
                v.store(away, row, at)
                v.store(v.multiply_add(g, away, v.load(total_w, at)), total_w, at)
                v.store(v.add(v.load(total_b, at), g), total_b, at)
                return [weighted, v.mul(weighted, away)]

            shift, tilt = (builder.fdiv(total, count) for total in each.sums(2, weigh))

            def store(v, at):
                weighted = v.mul(v.load(given, at), v.load(w, at))
                about = v.multiply_add(v.load(row, at), v.everywhere(tilt), v.everywhere(shift))
                v.store(v.mul(v.everywhere(factor), v.sub(weighted, about)), into, at)

            each.along(store)
        return context.get_dummy_value()

    n = types.intp
    return types.void(grad, n, s, weight, s.dtype, ds, of_weight, of_bias, n, n), codegen


@intrinsic
def rms(typing_context, z, at, weight, eps, out, rows, h):
    """Rows of z, each at its root mean square of 1, times the weight, into the same rows of out."""

    def codegen(context, builder, signature, args):
        each = _Rows(context, builder, z.dtype, args[6])
        start, target = each.wide.start(z, args[0], args[1]), each.wide.start(out, args[4], args[1])
        w = each.wide.start(weight, args[2])
        with cgutils.for_range(builder, args[5]) as loop:
            here = builder.mul(loop.index, each.h)
            row, into = builder.gep(start, [here]), builder.gep(target, [here])
            factor, _ = each.length(row, args[3])

            def store(v, at):
                v.store(v.mul(v.mul(v.load(row, at), v.everywhere(factor)), v.load(w, at)), into, at)

            each.along(store)
        return context.get_dummy_value()

    n = types.intp
    return types.void(z, n, weight, z.dtype, out, n, n), codegen


@intrinsic
def rms_backward(typing_context, grad, at, z, weight, eps, dz, of_weight, rows, h):
    """From the gradient of `rms` to that of z, all rows from `at` on; the gradient of the weight is added up."""

    def codegen(context, builder, signature, args):
        each = _Rows(context, builder, z.dtype, args[8])
        grads, rows_z, found = (each.wide.start(kind, args[i], args[1]) for kind, i in ((grad, 0), (z, 2), (dz, 5)))
        w, total_w = each.wide.start(weight, args[3]), each.wide.start(of_weight, args[6])
        with cgutils.for_range(builder, args[7]) as loop:
            here = builder.mul(loop.index, each.h)
            given, row, into = (builder.gep(start, [here]) for start in (grads, rows_z, found))
            factor, count = each.length(row, args[4])

            def weigh(v, at):
                g, scaled = v.load(given, at), v.mul(v.load(row, at), v.everywhere(factor))
                v.store(v.multiply_add(g, scaled, v.load(total_w, at)), total_w, at)
                return [v.mul(v.mul(g, v.load(w, at)), scaled)]

            tilt = builder.fdiv(each.sums(1, weigh)[0], count)

            def store(v, at):
                scaled = v.mul(v.load(row, at), v.everywhere(factor))
                about = v.sub(v.mul(v.load(given, at), v.load(w, at)), v.mul(scaled, v.everywhere(tilt)))
                v.store(v.mul(v.everywhere(factor), about), into, at)

            each.along(store)
        return context.get_dummy_value()

    n = types.intp
    return types.void(grad, n, z, weight, z.dtype, dz, of_weight, n, n), codegen
