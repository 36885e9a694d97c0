"""Files that people do try and that are not read: each is named, with what to do."""

import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch

from aireprune.errors import AireError
from aireprune.files import open_checkpoint

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
LEVELDB = bytes(100) + bytes.fromhex("57fb808b247547db")


def archive(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name in names:
            written.writestr(name, b"x")
    return file.getvalue()


def torchscript():
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("model.safetensors", POINTER, "Git LFS pointer .*git lfs pull"),
        ("model.pt", POINTER, "Git LFS pointer"),
        ("model", POINTER, "Git LFS pointer"),
        ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), "Keras or HDF5 file"),
        ("model.ckpt", b"\x89HDF\r\n\x1a\n" + bytes(100), "Keras or HDF5 file"),
        ("model.keras", archive("metadata.json", "model.weights.h5"), "Keras or HDF5 file"),
        ("model.ckpt", LEVELDB, "TensorFlow checkpoint"),
        ("model.ckpt.index", LEVELDB, "TensorFlow checkpoint"),
        ("model.ckpt.data-00000-of-00001", bytes(100), "part of a TensorFlow checkpoint"),
        ("checkpoint", b'model_checkpoint_path: "model.ckpt"\n', "TensorFlow checkpoint"),
        ("saved_model.pb", b"\x08\x01", "TensorFlow graph"),
        ("model.gguf", b"GGUF\x03\0\0\0", "GGUF file"),
        ("model.bin", b"GGUF\x03\0\0\0", "GGUF file"),
        ("params.npy", b"\x93NUMPY\1\0", "NumPy file"),
        ("model.pt", torchscript(), "TorchScript archive, a program; .* state_dict"),
        ("model.pkl", pickle.dumps({"a": 1}), "Python pickle, .* could run code"),
        ("model.pt", pickle.dumps({"a": 1}), "Python pickle, .* could run code"),
        ("params.pkl", pickle.dumps({"params": {"B": np.ones(3)}}), "Python pickle, .* flax.serialization.to_bytes"),
        ("model.pt", archive("readme.txt"), "zip archive but not a file of torch.save: it holds readme.txt"),
        ("model.pt", b"\x1f\x8b\x08", "compressed archive"),
        ("model.onnx", b"\x08\x07", "ONNX graph"),
        ("model.safetensors", b"<!DOCTYPE html><html>", "a web page, so the download went wrong"),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_files(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AireError, match=sentence) as caught:
        open_checkpoint(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("saved_model.pb", "TensorFlow SavedModel"),
        ("checkpoint", "TensorFlow checkpoint"),
        (".metadata", "distributed PyTorch checkpoint; .* dcp_to_torch"),
        ("manifest.ocdbt", "Orbax checkpoint"),
    ],
)
def test_folders(tmp_path, name, sentence):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(AireError, match=sentence):
        open_checkpoint(tmp_path)


def test_the_name_of_a_tensorflow_checkpoint(tmp_path):
    (tmp_path / "model.ckpt.index").write_bytes(LEVELDB)
    with pytest.raises(AireError, match=r"model.ckpt is a TensorFlow checkpoint"):
        open_checkpoint(tmp_path / "model.ckpt")


@pytest.mark.parametrize(
    "which", ["model.safetensors", "config.json", "model.safetensors.index.json", "part.safetensors"]
)
def test_a_pointer_anywhere_in_a_folder(tmp_path, which):
    (tmp_path / "config.json").write_text("{}")
    if which in ("part.safetensors", "model.safetensors.index.json"):
        index = {"weight_map": {"a": "part.safetensors"}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / which).write_bytes(POINTER)
    with pytest.raises(AireError, match=f"{which} is a Git LFS pointer"):
        open_checkpoint(tmp_path)


def test_a_file_of_torch_save_may_have_any_suffix(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "model.pkl")
    assert list(open_checkpoint(tmp_path / "model.pkl").shapes) == ["w"]
