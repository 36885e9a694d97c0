"""Text, or a stream of tokens, as calibration inputs: windows of the tokens that a model reads."""

from __future__ import annotations

from pathlib import Path

from aireprune.calibration.inputs import ArrayInputs
from aireprune.errors import AireError
from aireprune.tasks import TASKS
from aireprune.tasks.numpy_files import is_npz, npy_shape
from aireprune.tasks.tokens import read_tokens

WINDOW = 512


def is_text(source: object) -> bool:
    """Whether a source is a file of text, or a .npy file with one stream of tokens."""
    if not isinstance(source, str | Path) or str(source) in TASKS or not Path(source).is_file():
        return False
    path = Path(source)
    if path.suffix == ".npy":
        return len(npy_shape(path)) == 1
    return path.suffix != ".npz" and not is_npz(path)


def read_text_inputs(path: Path, folder: Path | None, tokens: int) -> ArrayInputs:
    """About `tokens` tokens from the beginning of a file. folder: where the model's tokenizer is; None for bytes."""
    if tokens < 2:
        raise AireError(f"Calibration needs some tokens; got calibrate_tokens={tokens}.")
    window = min(WINDOW, tokens)
    return ArrayInputs(read_tokens(path, folder, window, tokens // window))
