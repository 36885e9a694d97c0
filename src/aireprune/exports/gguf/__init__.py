"""Mamba and Mamba-2 folders as GGUF files for llama.cpp."""
