"""The processor that numba compiles for, and how wide its vector registers are: the one probe for all kernels.

Numba's code generator is asked rather than the machine, so NUMBA_CPU_NAME, NUMBA_CPU_FEATURES and NUMBA_ENABLE_AVX
count. Only features that are named count as present: what follows from a processor's name alone does not, and kernels
then work with narrower vectors, which every processor has.
"""

from __future__ import annotations

from numba.core.registry import cpu_target

TRIPLE, NAME, SETTINGS = (str(part) for part in cpu_target.target_context.codegen().magic_tuple())
IS_X86 = TRIPLE.startswith(("x86_64", "i386", "i686"))


def named_features(settings: str) -> frozenset[str]:
    """The features that an LLVM feature string such as "+avx2,-fma" switches on; the last word on a feature holds."""
    found: set[str] = set()
    for setting in settings.split(","):
        feature = setting.strip()[1:]
        (found.add if setting.strip().startswith("+") else found.discard)(feature)
    return frozenset(found)


def registers(features: frozenset[str], x86: bool) -> tuple[int, int]:
    """Bytes of a vector register, and how many of them there are."""
    if "avx512f" in features:
        return 64, 32
    if {"avx2", "fma"} <= features:
        return 32, 16
    return 16, 16 if x86 else 32  # SSE, NEON


FEATURES = named_features(SETTINGS)
REGISTER_BYTES, REGISTERS = registers(FEATURES, IS_X86)
SPLITS_EXPONENTS = {"avx512f", "avx512dq"} <= FEATURES  # instructions for u - floor(u) and for x 2^floor(u)
