"""Tiny random-weight backbones: real architectures, no download, seconds on any machine."""

from __future__ import annotations

import string
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from reflex.errors import BackboneError, brief

_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_THINK = (
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}"
)
# A range ten times the usual one: logits of order one, so that a wrong mask moves them visibly.
_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "max_position_embeddings": 4096,
}


def random_model(family: str, seed: int, attention: str = "sdpa") -> tuple[torch.nn.Module, Any]:
    """A seeded tiny model and its tokenizer. Raises BackboneError for a family or an attention unknown."""
    tokenizer = byte_tokenizer(thinks=family != "llama")
    shape = {**_SHAPE, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if family == "llama":
        config: Any = LlamaConfig(num_hidden_layers=3, **shape)
    elif family == "qwen3":
        config = Qwen3Config(num_hidden_layers=3, head_dim=16, tie_word_embeddings=True, **shape)
    elif family == "qwen3_5":
        config = Qwen3_5TextConfig(
            num_hidden_layers=4,
            head_dim=16,
            linear_key_head_dim=16,
            linear_value_head_dim=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            layer_types=[
                "linear_attention",
                "linear_attention",
                "full_attention",
                "linear_attention",
            ],
            **shape,
        )
    else:
        raise BackboneError(
            f"backbone.path={family}: random weights exist for llama, qwen3, qwen3_5"
        )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        except (ImportError, ValueError) as error:  # not a name it knows, or a package is missing
            raise BackboneError(f"backbone.attention={attention}: {brief(error)}") from None
    return model, tokenizer


def byte_tokenizer(*, thinks: bool) -> PreTrainedTokenizerFast:
    """Byte-level tokenizer: every byte, every letter behind a space, and a few codes are one token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    space = "Ġ"
    pairs = [("y", "e"), ("ye", "s"), ("n", "o"), (space, "yes"), (space, "no")]
    pairs += [(space, letter) for letter in string.ascii_letters + string.digits]
    pairs += [("A", letter) for letter in string.ascii_uppercase]
    vocab = {token: i for i, token in enumerate(alphabet)}
    for left, right in pairs:
        vocab.setdefault(left + right, len(vocab))
    backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.chat_template = _CHATML + (_THINK if thinks else "")
    return tokenizer
