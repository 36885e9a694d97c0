"""No copy gets a value that is not finite unless its source has it: checked once, where edited tensors are written."""

from __future__ import annotations

import numpy as np

from aireprune.arrays import Edit
from aireprune.errors import AireError


def edited(values: np.ndarray, edit: Edit, where: str) -> np.ndarray:
    """The result of an edit. Values that are not finite are refused, except where the source has such values too.

    Where the edit changes the shape, places cannot be compared; then the result must not have more of them.
    """
    before = _not_finite(values)
    result = np.asarray(edit(values))
    after = _not_finite(result)
    if before.shape == after.shape:
        new = int(np.count_nonzero(after & ~before))
    else:
        new = int(np.count_nonzero(after)) - int(np.count_nonzero(before))
    if new > 0:
        raise AireError(
            f"{where} would get {new} values that are not finite and that its source does not have; nothing is "
            "written. Calibration inputs or weights that are out of range are the usual reason."
        )
    return result


def check_finite(values: np.ndarray, where: str) -> None:
    """Refuse a new tensor with values that are not finite."""
    if count := int(np.count_nonzero(_not_finite(values))):
        raise AireError(f"{where} has {count} values that are not finite; nothing is written.")


def _not_finite(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fc":
        return np.zeros(values.shape, bool)
    return ~np.isfinite(values)
