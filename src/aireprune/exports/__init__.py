"""Models as files that other engines run: ONNX, GGUF and torch.export."""
