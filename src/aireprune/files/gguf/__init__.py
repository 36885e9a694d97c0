"""GGUF files of Mamba and Mamba-2 models, which are read and not written here (`aireprune.exports.gguf` makes them)."""
