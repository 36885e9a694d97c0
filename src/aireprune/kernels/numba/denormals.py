# mypy: ignore-errors
"""Flush-to-zero for numba workers.

A stable scan over a zero-padded input decays into denormal numbers, which x86 handles about 6x slower than
ordinary ones. The flag lives in a per-thread register and numba's workers do not inherit torch's setting, so
every parallel body saves the register, sets FTZ and DAZ, and puts the old value back when it is done.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.cpu import IS_X86

_FTZ_AND_DAZ = 0x8040  # bits 15 and 6 of MXCSR


def _call_mxcsr(builder, name, pointer):
    byte_pointer = ir.IntType(8).as_pointer()
    function = builder.module.declare_intrinsic(name, fnty=ir.FunctionType(ir.VoidType(), [byte_pointer]))
    builder.call(function, [builder.bitcast(pointer, byte_pointer)])


@intrinsic
def _read_mxcsr(typing_context):
    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, ir.IntType(32))
        _call_mxcsr(builder, "llvm.x86.sse.stmxcsr", slot)
        return builder.load(slot)

    return types.uint32(), codegen


@intrinsic
def _write_mxcsr(typing_context, value):
    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once_value(builder, args[0])
        _call_mxcsr(builder, "llvm.x86.sse.ldmxcsr", slot)
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


if IS_X86:

    @njit(inline="always")
    def flush_denormals():
        """Switch flush-to-zero on in this thread; returns the register to hand to `restore_denormals`."""
        old = _read_mxcsr()
        _write_mxcsr(types.uint32(old | _FTZ_AND_DAZ))
        return old

    @njit(inline="always")
    def restore_denormals(old):
        _write_mxcsr(types.uint32(old))

else:  # elsewhere denormal numbers cost little, so the register stays as it is

    @njit(inline="always")
    def flush_denormals():
        return 0

    @njit(inline="always")
    def restore_denormals(old):
        pass
