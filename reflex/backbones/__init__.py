"""Weights and tokenizer from anywhere: hub id, local folder, GGUF file, registry asset, random."""
