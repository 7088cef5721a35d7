"""The oracle of control-token safety: text by vocabulary, merges and splitting rules alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from tokenizers import Tokenizer

from reflex.prompts.pieces import Piece

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
"""The control tokens of `byte_tokenizer`."""


def spelling(tokenizer: Any) -> Callable[[str], list[int]]:
    """How `tokenizer` would spell a text if it had no control or other added tokens to recognise in it."""
    backend = tokenizer.backend_tokenizer
    bare = Tokenizer(backend.model)
    bare.pre_tokenizer = backend.pre_tokenizer
    if backend.normalizer is not None:
        bare.normalizer = backend.normalizer
    return lambda text: bare.encode(text, add_special_tokens=False).ids


def spelling_of_pieces(tokenizer: Any) -> Callable[[Iterable[Piece]], list[int]]:
    """The same for pieces, of which `control` ones alone may hold control tokens."""
    spell = spelling(tokenizer)

    @cache
    def ids(piece: Piece) -> list[int]:
        if piece.control:
            return tokenizer.encode(piece.text, add_special_tokens=False)
        return spell(piece.text)

    return lambda pieces: [token for piece in pieces for token in ids(piece)]
