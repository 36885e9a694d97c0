"""The probe answers for the processor that numba compiles for, and kernels fit whatever it answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aireprune.kernels.numba import cpu
from aireprune.kernels.numba.cpu import named_features, registers

x86 = pytest.mark.skipif(not cpu.IS_X86, reason="needs a processor of the x86 family")


def run(*arguments, name, features):
    """Python in a process whose numba compiles for another processor."""
    environment = {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_last_word_on_a_feature_holds():
    assert named_features("+avx,+fma,-avx512f,-fma,+sse2") == {"avx", "sse2"}
    assert named_features("") == frozenset()


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx512f", "avx2", "fma"}, (64, 32)),
        ({"avx2", "fma"}, (32, 16)),
        ({"avx"}, (16, 16)),  # Sandy Bridge: no multiply-add, no integer vectors of 32 bytes
        ({"avx", "avx2"}, (16, 16)),
        ({"fma"}, (16, 16)),
        (set(), (16, 16)),
    ],
)
def test_registers_of_x86(features, expected):
    assert registers(frozenset(features), x86=True) == expected


def test_registers_elsewhere():
    assert registers(frozenset({"neon"}), x86=False) == (16, 32)


PROBE = "from aireprune.kernels.numba import cpu; print(cpu.NAME, cpu.REGISTER_BYTES, cpu.SPLITS_EXPONENTS)"


@x86
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("", "x86-64 16 False"),
        ("+avx", "x86-64 16 False"),
        ("+avx2,+fma", "x86-64 32 False"),
        ("+avx512f", "x86-64 64 False"),
        ("+avx512f,+avx512dq", "x86-64 64 True"),
    ],
)
def test_what_the_user_sets_counts(features, expected):
    assert run("-c", PROBE, name="x86-64", features=features).strip() == expected


@x86
@pytest.mark.parametrize("features", ["+avx", "+avx2,+fma"])
def test_kernels_on_other_processors(features):
    """They are compiled for these and run here: every x86 machine in use has their instructions."""
    here = Path(__file__).parent
    run("-m", "pytest", "-n", "0", "-p", "no:cacheprovider", str(here / "test_gemm.py"), str(here / "test_recurrence.py"),
        name="x86-64", features=features)  # fmt: skip


ASSEMBLY = """
import numpy as np
from aireprune.kernels.numba.gemm import gemm, padded
from aireprune.kernels.numba.recurrence import recurrence
line = np.zeros((1, padded(8, 4)), np.float32)
gemm(line, 0, 1, np.zeros(line.size**2, np.float32), 8, line, line.copy(), 0)
recurrence(line[0], line[0], line, 0, line, 0, 0, 1, line, 0, 0)
print(*gemm.inspect_asm().values(), *recurrence.inspect_asm().values())
"""


@x86
def test_a_multiply_add_is_no_call_where_the_processor_lacks_it():
    assert "fma" not in run("-c", ASSEMBLY, name="x86-64", features="+avx")
    assert "vfmadd" in run("-c", ASSEMBLY, name="x86-64", features="+avx2,+fma")
