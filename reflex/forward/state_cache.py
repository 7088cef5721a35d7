"""Prefix states (keys and values, or recurrent states) kept across requests: LRU with a byte budget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class PrefixState:
    """The cache after one prefix: a transformers cache of batch 1 covering `length` tokens.

    Shared between requests and threads, so nobody may extend it in place.
    """

    cache: Any
    length: int
    nbytes: int


def tensors_of(cache: Any) -> Iterator[torch.Tensor]:
    """Every tensor a transformers cache holds, whatever its layers are made of."""
    for layer in cache.layers:
        for value in vars(layer).values():
            for item in value.values() if isinstance(value, dict) else (value,):
                if isinstance(item, torch.Tensor):
                    yield item


class StateCache:
    """Least recently used states within `max_bytes`; counts hits and misses. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.hits = 0
        self.misses = 0
        self.nbytes = 0
        self._states: OrderedDict[str, PrefixState] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> PrefixState | None:
        with self._lock:
            state = self._states.get(key)
            if state is None:
                self.misses += 1
                return None
            self.hits += 1
            self._states.move_to_end(key)
            return state

    def put(self, key: str, state: PrefixState) -> None:
        """Keep `state`, dropping the oldest; one larger than the budget is not kept at all."""
        with self._lock:
            if state.nbytes > self.max_bytes or key in self._states:
                return
            self._states[key] = state
            self.nbytes += state.nbytes
            while self.nbytes > self.max_bytes:
                _, old = self._states.popitem(last=False)
                self.nbytes -= old.nbytes

    def __contains__(self, key: str) -> bool:
        """Whether `get` would find `key`; counts neither hit nor miss."""
        with self._lock:
            return key in self._states

    def clear(self) -> None:
        with self._lock:
            self._states.clear()
            self.nbytes = 0

    def __len__(self) -> int:
        return len(self._states)


class HeadStates:
    """States of the prompt's own first words. Few (one per prompt), small, and kept while the model lives."""

    LIMIT = 8
    MIN_TOKENS = 16
    """A shorter head costs about as much to continue as to read again."""

    def __init__(self, compute: Callable[[tuple[int, ...]], PrefixState]) -> None:
        self._compute = compute
        self._states: dict[tuple[int, ...], PrefixState] = {}

    def get(self, ids: tuple[int, ...]) -> PrefixState | None:
        """The state after `ids`, computed the first time; None where sharing it would not pay."""
        if len(ids) < self.MIN_TOKENS:
            return None
        state = self._states.get(ids)
        if state is None:
            state = self._compute(ids)
            if len(self._states) < self.LIMIT:
                self._states[ids] = state
        return state

    def clear(self) -> None:
        self._states.clear()
