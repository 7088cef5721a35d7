"""Rows that share text with benchmark rows, found through hashed word n-grams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

NGRAM = 8
MIN_SENTENCE = 5
"""Words a shared sentence must have: shorter ones ("I agree with you.") occur everywhere."""

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|\n+")


class Index:
    """The texts, sentences and n-grams of many states.

    An n-gram's hash is Σ random[word] · random[position] mod 2^64: with 10^7 n-grams on each side the
    chance of any false match is below 10^-5.
    """

    def __init__(self, states: Iterable[Any]) -> None:
        self._texts: set[str] = set()
        self._sentences: set[str] = set()
        self._words: dict[str, int] = {}
        encoded: list[npt.NDArray[np.int64]] = []
        for state in states:
            for text in texts(state):
                if text in self._texts:
                    continue
                self._texts.add(text)
                self._sentences.update(_sentences(text))
                words = _WORD.findall(text.lower())
                ids = [self._words.setdefault(word, len(self._words)) for word in words]
                encoded.append(np.asarray(ids, np.int64))
        rng = np.random.default_rng(0)
        self._value = rng.integers(0, 2**63, len(self._words), np.int64).astype(np.uint64)
        self._place = rng.integers(0, 2**63, NGRAM, np.int64).astype(np.uint64) | np.uint64(1)
        parts = [self._hashes(ids) for ids in encoded]
        self._ngrams = np.unique(np.concatenate(parts or [np.zeros(0, np.uint64)]))

    def reason(self, state: Any) -> str | None:
        """The strongest of what the state shares with them; None when it is nothing.

        `text`: a whole text of it (an evidence, a passage, an utterance) verbatim; `sentence`: one of at least
        `MIN_SENTENCE` words, whatever case and punctuation; `ngram`: `NGRAM` consecutive words.
        """
        found = list(texts(state))
        if any(text in self._texts for text in found):
            return "text"
        if any(sentence in self._sentences for text in found for sentence in _sentences(text)):
            return "sentence"
        return "ngram" if any(self._shares_ngram(text) for text in found) else None

    def _shares_ngram(self, text: str) -> bool:
        if not len(self._ngrams):
            return False
        words = _WORD.findall(text.lower())
        ids = np.fromiter((self._words.get(word, -1) for word in words), np.int64, len(words))
        hashes = self._hashes(ids)
        places = np.minimum(np.searchsorted(self._ngrams, hashes), len(self._ngrams) - 1)
        return bool((self._ngrams[places] == hashes).any())

    def _hashes(self, ids_n: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Hash of each run of `NGRAM` known words; runs with an unknown word (−1) are left out."""
        if len(ids_n) < NGRAM:
            return np.zeros(0, np.uint64)
        runs_rk = np.lib.stride_tricks.sliding_window_view(ids_n, NGRAM)
        runs_rk = runs_rk[(runs_rk >= 0).all(axis=1)]
        hashed: npt.NDArray[np.uint64] = (self._value[runs_rk] * self._place).sum(
            axis=1, dtype=np.uint64
        )
        return hashed


def texts(state: Any) -> Iterator[str]:
    """Every text inside a state, stripped; each field on its own, so that no run crosses two."""
    if isinstance(state, str):
        if text := state.strip():
            yield text
    elif isinstance(state, dict):
        for value in state.values():
            yield from texts(value)
    elif isinstance(state, list):
        for value in state:
            yield from texts(value)


def normalised_texts(state: Any) -> Iterator[str]:
    """The texts of a state that say enough to be known again, whatever case and spacing."""
    for text in texts(state):
        words = text.lower().split()
        if len(words) >= MIN_SENTENCE:
            yield " ".join(words)


def _sentences(text: str) -> Iterator[str]:
    """Sentences of enough words, as lower-case words joined by spaces."""
    for part in _SENTENCE_END.split(text):
        words = _WORD.findall(part.lower())
        if len(words) >= MIN_SENTENCE:
            yield " ".join(words)
