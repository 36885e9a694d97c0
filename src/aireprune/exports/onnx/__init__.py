"""Models as ONNX graphs, written operator by operator from their weights, in real arithmetic."""
