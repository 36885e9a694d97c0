"""Number formats: how the bytes of a checkpoint become NumPy values and go back.

NumPy has no bfloat16, so it is handed out as float32 (every bfloat16 is a float32 with 16 zero bits at its end) and
rounded to nearest, ties to even, on the way back. Values that did not change come back bit by bit. Formats that NumPy
cannot compute with (float8 and the like) are carried as bytes and only fail when someone asks for their values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aireprune.errors import AireError

BFLOAT16 = "BF16"
BFLOAT16_INFINITY = 0x7F80

# safetensors code -> NumPy type that holds its values
NUMPY: dict[str, str] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "C64": "<c8",
    "C128": "<c16",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
BITS: dict[str, int] = {
    **{code: 8 * np.dtype(name).itemsize for code, name in NUMPY.items()},
    BFLOAT16: 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
}


def decode(raw: npt.NDArray[np.uint8], code: str, shape: tuple[int, ...], where: str) -> np.ndarray:
    """The values of a tensor's bytes. `where` names file and tensor in the error."""
    if code == BFLOAT16:
        return widen(raw.view("<u2")).reshape(shape)
    if code not in NUMPY:
        raise AireError(
            f"{where} is stored as {code}, whose values cannot be edited; convert it to float16 or wider first."
        )
    return raw.view(NUMPY[code]).reshape(shape)


def encode(values: np.ndarray, code: str, where: str) -> npt.NDArray[np.uint8]:
    """The bytes of values in a tensor's stored format: the inverse of `decode`."""
    stored = to_bfloat16(values, where) if code == BFLOAT16 else cast(values, np.dtype(NUMPY[code]), where)
    return np.ascontiguousarray(stored).reshape(-1).view(np.uint8)


def code_of(dtype: np.dtype) -> str:
    """The safetensors code of a NumPy type."""
    for code, name in NUMPY.items():
        if np.dtype(name) == dtype.newbyteorder("<"):
            return code
    raise AireError(f"Arrays of NumPy type {dtype} cannot be stored; use one of {', '.join(NUMPY)}.")


def to_bfloat16(values: np.ndarray, where: str) -> npt.NDArray[np.uint16]:
    """Values as bfloat16 bits, unless that would lose an imaginary part or turn a finite number into infinity."""
    wide = cast(values, np.dtype("<f4"), where)
    bits = narrow(wide)
    infinite = (bits & 0x7FFF) == BFLOAT16_INFINITY
    if infinite.any() and np.isfinite(wide[infinite]).any():
        raise AireError(f"{where} is stored as bfloat16, in which its edited values overflow.")
    return bits


def cast(values: np.ndarray, dtype: np.dtype, where: str) -> np.ndarray:
    """Values in another type, unless that would lose an imaginary part or turn a finite number into infinity."""
    if values.dtype == dtype:
        return values
    if np.iscomplexobj(values) and dtype.kind != "c":
        raise AireError(f"{where} is stored as {dtype.name} but its edited values are complex.")
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    if dtype.kind in "fc" and not np.isfinite(result).all() and np.isfinite(values[~np.isfinite(result)]).any():
        raise AireError(f"{where} is stored as {dtype.name}, in which its edited values overflow.")
    return result


def widen(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """bfloat16 bits -> float32, exactly."""
    wide = bits.astype("<u4")
    wide <<= 16
    return wide.view("<f4")


def narrow(values: np.ndarray) -> npt.NDArray[np.uint16]:
    """float32 -> bfloat16 bits, to nearest, ties to even. NaN stays NaN."""
    bits = np.ascontiguousarray(values, "<f4").reshape(-1).view("<u4")
    wide = bits >> 16
    wide &= 1
    wide += 0x7FFF
    wide += bits
    wide >>= 16
    rounded = wide.astype("<u2")
    nan = np.flatnonzero(np.isnan(values))
    # a NaN whose set bits are all in the lower half would round to infinity
    nan = nan[(bits[nan] & 0xFFFF) != 0]
    rounded[nan] = (bits[nan] >> 16).astype("<u2") | np.uint16(0x40)
    return rounded.reshape(values.shape)
