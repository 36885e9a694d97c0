"""What is asked of an export: formats by suffix, and choices that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.errors import AireError
from aireprune.exports.request import ExportRequest, make_export_request


@pytest.mark.parametrize(("name", "to"), [("a.onnx", "onnx"), ("a.gguf", "gguf"), ("a.pt2", "torch")])
def test_the_format_follows_from_the_suffix_unless_it_is_given(name, to):
    assert make_export_request(Path(name), None, {}).to == to
    assert make_export_request(Path(name), "onnx", {}).to == "onnx"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"to": "coreml"}, "There is no to='coreml'. Choices: onnx, gguf, torch"),
        ({"to": "onnx", "opset": 12}, "opset=12 is not one.*20 to 27"),
        ({"to": "onnx", "inputs": "text"}, "There is no inputs='text'"),
        ({"to": "gguf", "weights": "q4"}, "There is no weights='q4'. Choices: f32, f16, q8_0"),
        ({"to": "gguf", "step": True}, "step= is for to='onnx'"),
        ({"to": "torch", "int8": True}, "int8= is for to='onnx'"),
        ({"to": "onnx", "weights": "f16"}, "weights= is for to='gguf'"),
    ],
)
def test_odd_choices_are_refused(choices, message):
    with pytest.raises(AireError, match=message):
        ExportRequest(**choices)


def test_a_suffix_that_says_nothing_and_an_unknown_argument():
    with pytest.raises(AireError, match=r"suffix of out\.bin does not say.*\.onnx, \.gguf, \.pt2"):
        make_export_request(Path("out.bin"), None, {})
    with pytest.raises(AireError, match="There is no argument streaming="):
        make_export_request(Path("out.onnx"), None, {"streaming": True})  # type: ignore[typeddict-unknown-key]
