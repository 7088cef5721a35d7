"""Label alphabets: the short names options are given so that one token can answer."""

from __future__ import annotations

import itertools
import string

LETTERS: tuple[str, ...] = tuple(string.ascii_uppercase)
RATING_DIGITS: tuple[str, ...] = tuple("012345678")


def code_candidates() -> tuple[str, ...]:
    """`A…Z, AA…ZZ`: what `labels: codes` draws from, before split codes are skipped per tokenizer."""
    pairs = ("".join(pair) for pair in itertools.product(LETTERS, repeat=2))
    return LETTERS + tuple(pairs)
