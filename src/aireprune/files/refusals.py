"""Files that people do try and that are not read: recognised by their first bytes or name, refused with what to do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from aireprune.errors import AireError, shown

HEAD = 512  # bytes at the start of a file that are enough to know it
TAIL = 8
SAVE = "save the arrays with safetensors.numpy.save_file"
TENSORFLOW = f"a TensorFlow checkpoint; read its variables with tf.train.load_checkpoint and {SAVE}"
TORCHSCRIPT = "a TorchScript archive, a program; load it with torch.jit.load and save only its state_dict()"
PICKLE = (
    "a Python pickle, and reading one could run code; open it in the project it comes from and save only "
    "model.state_dict() with torch.save, or a tree of parameters with flax.serialization.to_bytes"
)
GIT_LFS = (
    "a Git LFS pointer and not the file it stands for; run `git lfs pull` in its folder, or download the file itself"
)
NUMPY = f"a NumPy file; load it with numpy.load and {SAVE}"
KERAS = f"a Keras or HDF5 file; load it in Keras or h5py and {SAVE}"
GGUF = (
    "a GGUF file, made for llama.cpp and usually quantised; prune the checkpoint it was made from, then convert again"
)
PACKED = "a compressed archive; unpack it and name what is inside"

FIRST_BYTES = (
    (b"version https://git-lfs.github.com/spec/", GIT_LFS),
    (b"\x89HDF\r\n\x1a\n", KERAS),
    (b"GGUF", GGUF),
    (b"\x93NUMPY", NUMPY),
    (b"model_checkpoint_path:", TENSORFLOW),
    (b"\x1f\x8b", PACKED),
    (b"\xfd7zXZ\0", PACKED),
    (b"\x28\xb5\x2f\xfd", PACKED),
    (b"BZh", PACKED),
    (b"7z\xbc\xaf\x27\x1c", PACKED),
    (b"<!DOCTYPE", "a web page, so the download went wrong; download the file itself"),
    (b"<!doctype", "a web page, so the download went wrong; download the file itself"),
    (b"<html", "a web page, so the download went wrong; download the file itself"),
)
LAST_BYTES = ((b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", TENSORFLOW),)  # a table of LevelDB: the .index, or a .ckpt of old
SUFFIXES = {
    ".h5": KERAS,
    ".hdf5": KERAS,
    ".keras": KERAS,
    ".gguf": GGUF,
    ".npy": NUMPY,
    ".pkl": PICKLE,
    ".pickle": PICKLE,
    ".joblib": PICKLE,
    ".pb": f"a TensorFlow graph; load the model in TensorFlow and {SAVE}",
    ".index": TENSORFLOW,
    ".meta": TENSORFLOW,
    ".onnx": "an ONNX graph; prune the checkpoint it was exported from, then export again",
    ".tflite": "a TensorFlow Lite model; prune the checkpoint it was converted from, then convert again",
    ".pt2": "an exported PyTorch program; save only model.state_dict() with torch.save",
}
IN_FOLDERS = (
    ("saved_model.pb", f"a TensorFlow SavedModel; load it in TensorFlow and {SAVE}"),
    ("keras_metadata.pb", KERAS),
    (
        ".metadata",
        "a distributed PyTorch checkpoint; turn it into one file with "
        "python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER OUT.pt",
    ),
    ("checkpoint", TENSORFLOW),
)


def refuse_foreign(path: Path, head: bytes, tail: bytes = b"") -> None:
    """Refuse a file that is recognised as something else than a checkpoint we read."""
    for known, what in FIRST_BYTES:
        if head.startswith(known):
            raise AireError(f"{path} is {what}.")
    for known, what in LAST_BYTES:
        if tail.endswith(known):
            raise AireError(f"{path} is {what}.")
    if head[257:262] == b"ustar":
        raise AireError(f"{path} is {PACKED}.")
    if ".data-0" in path.name and "-of-0" in path.name:
        raise AireError(f"{path} is part of {TENSORFLOW}.")


def refuse_by_suffix(path: Path) -> None:
    """Refuse a file whose bytes say nothing, but whose suffix does."""
    if path.suffix.lower() in SUFFIXES:
        raise AireError(f"{path} is {SUFFIXES[path.suffix.lower()]}.")


def refuse_foreign_archive(path: Path, names: Iterable[str]) -> None:
    """Refuse a zip archive whose names show that it is not a file of torch.save."""
    listed = list(names)
    inner = {name.partition("/")[2] for name in listed}
    if "constants.pkl" in inner or any(name.startswith("code/") for name in inner):
        raise AireError(f"{path} is {TORCHSCRIPT}.")
    if any(name.endswith(".npy") for name in listed):
        raise AireError(f"{path} is {NUMPY}.")
    if "model.weights.h5" in listed:
        raise AireError(f"{path} is {KERAS}.")
    if "data.pkl" not in inner:
        found = f"it holds {shown(listed[0])}" if listed else "it is empty"
        raise AireError(f"{path} is a zip archive but not a file of torch.save: {found}. Unpack it if it holds a file.")


def refuse_foreign_folder(folder: Path) -> None:
    """Refuse a folder that is a checkpoint of another kind."""
    for name, what in IN_FOLDERS:
        if (folder / name).is_file():
            raise AireError(f"{folder} is {what}.")


def refuse_missing(path: Path) -> None:
    """Nothing stands at `path`. The names of TensorFlow's checkpoints are those of their files without an ending."""
    if path.with_name(f"{path.name}.index").exists():
        raise AireError(f"{path} is {TENSORFLOW}.")
    raise AireError(f"{path} does not exist.")
