"""The model calls themselves: prefill a prefix, continue it, run whole rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from reflex.backbones.backbone import Backbone
from reflex.errors import BackboneError
from reflex.forward.state_cache import PrefixState, tensors_of
from reflex.forward.tree import Row


def pad(sequences: Sequence[Sequence[int]], fill: int, device: torch.device) -> torch.Tensor:
    """Right-padded int64 tensor (rows × longest)."""
    width = max(len(sequence) for sequence in sequences)
    padded = [list(sequence) + [fill] * (width - len(sequence)) for sequence in sequences]
    return torch.tensor(padded, device=device)


def run_rows(backbone: Backbone, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Plain causal rows, right-padded: hidden states (rows × longest × hidden).

    No mask is needed: causal attention and recurrences both read left to right, so padding on the right
    reaches no real token.
    """
    return _call(backbone, input_ids=_ids(backbone, rows), use_cache=False)


def run_tree_rows(backbone: Backbone, rows: Sequence[Row]) -> torch.Tensor:
    """Rows that hold prefix and branches under a block mask: hidden (rows × longest × hidden)."""
    device = backbone.device
    return _call(
        backbone,
        input_ids=_ids(backbone, [row.ids for row in rows]),
        position_ids=pad([row.positions for row in rows], 0, device),
        attention_mask=block_mask(rows, [0] * len(rows), device),
        use_cache=False,
    )


def prefill(
    backbone: Backbone, prefixes: Sequence[Sequence[int]], head: PrefixState | None = None
) -> list[PrefixState]:
    """States of several prefixes from one right-padded call. Hybrids: one prefix a call.

    `head`: the state after the first tokens of every one of them, which are then not read again. Raises
    BackboneError for several prefixes of a hybrid, and where this transformers keeps no state.
    """
    if len(prefixes) > 1 and not backbone.facts.packable:
        raise BackboneError("a recurrent state cannot skip padding: prefill prefixes one by one")
    if head is None:
        cache: Any = DynamicCache(config=backbone.decoder.config)
        start = 0
    else:
        cache, start = _copies(backbone, head, len(prefixes)), head.length
    ids = _ids(backbone, [prefix[start:] for prefix in prefixes])
    _call(
        backbone,
        input_ids=ids,
        position_ids=_positions(start, ids),
        use_cache=True,
        **{backbone.cache_argument: cache},
    )
    if cache.get_seq_length() != start + ids.shape[1]:
        raise BackboneError(
            f"transformers left the cache empty (argument {backbone.cache_argument!r}): this version "
            "renamed it; install the versions in constraints.txt"
        )
    if len(prefixes) == 1:
        return [_state(cache, len(prefixes[0]))]
    states = []
    for index, prefix in enumerate(prefixes):
        keep = slice(index, index + 1), slice(None), slice(0, len(prefix))
        layers = [(layer.keys[keep].clone(), layer.values[keep].clone()) for layer in cache.layers]
        states.append(_state(_cache_of(backbone, layers), len(prefix)))
    return states


def prefill_within(
    backbone: Backbone,
    prefixes: Sequence[Sequence[int]],
    most: int,
    head: PrefixState | None = None,
) -> list[PrefixState]:
    """`prefill`, but a prefix on its own is read in calls of at most `most` tokens, each over the state before it."""
    if len(prefixes) == 1:
        start = 0 if head is None else head.length
        for end in range(start + most, len(prefixes[0]), most):
            (head,) = prefill(backbone, [prefixes[0][:end]], head)
    return prefill(backbone, prefixes, head)


def continue_packed(
    backbone: Backbone, rows: Sequence[Row], states: Sequence[PrefixState]
) -> torch.Tensor:
    """Rows of packed branches over their cached prefixes (row i over states[i]).

    Returns hidden states (rows × longest × hidden) of the branch tokens. Attention-only backbones.
    """
    device = backbone.device
    longest = max(state.length for state in states)
    layers = []
    for per_row in zip(*(state.cache.layers for state in states), strict=True):
        keys = _stack([layer.keys for layer in per_row], longest)
        values = _stack([layer.values for layer in per_row], longest)
        layers.append((keys, values))
    return _call(
        backbone,
        input_ids=_ids(backbone, [row.ids for row in rows]),
        position_ids=pad([row.positions for row in rows], 0, device),
        attention_mask=block_mask(rows, [state.length for state in states], device),
        use_cache=True,
        **{backbone.cache_argument: _cache_of(backbone, layers)},
    )


def continue_batched(
    backbone: Backbone, suffixes: Sequence[Sequence[int]], state: PrefixState
) -> torch.Tensor:
    """One suffix a row, right-padded, over copies of one state: hidden (rows × longest × hidden)."""
    ids = _ids(backbone, suffixes)
    return _call(
        backbone,
        input_ids=ids,
        position_ids=_positions(state.length, ids),
        use_cache=True,
        **{backbone.cache_argument: _copies(backbone, state, len(suffixes))},
    )


def block_mask(
    rows: Sequence[Row], prefix_lengths: Sequence[int], device: torch.device
) -> torch.Tensor:
    """Boolean mask (rows × 1 × queries × keys), keys = longest prefix, then the row's own tokens.

    True = may see. A padding token sees itself: a row that sees nothing would be NaN and spread.
    """
    width = max(len(row.ids) for row in rows)
    index = torch.arange(width, device=device)
    ends = pad([row.ends for row in rows], 0, device)
    lengths = torch.tensor([[len(row.ids)] for row in rows], device=device)
    ends = torch.where(index < lengths, ends, index + 1)
    own = (index <= index[:, None]) & (ends[:, None, :] > index[:, None])
    longest = max(prefix_lengths)
    if longest == 0:
        return own[:, None]
    shared = (
        torch.arange(longest, device=device) < torch.tensor(prefix_lengths, device=device)[:, None]
    )
    return torch.cat([shared[:, None, :].expand(-1, width, -1), own], dim=-1)[:, None]


def _ids(backbone: Backbone, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    """Token ids of one call, right-padded; the backbone's `cells` count them."""
    backbone.cells.add([len(sequence) for sequence in sequences])
    return pad(sequences, 0, backbone.device)


def _call(backbone: Backbone, **kwargs: Any) -> torch.Tensor:
    return backbone.decoder(**kwargs).last_hidden_state


def _positions(start: int, ids: torch.Tensor) -> torch.Tensor:
    return torch.arange(start, start + ids.shape[1], device=ids.device).expand(len(ids), -1)


def _copies(backbone: Backbone, state: PrefixState, rows: int) -> Any:
    """A cache that may be extended: the state once for each row."""
    cache = copy.deepcopy(state.cache)
    cache.reorder_cache(torch.zeros(rows, dtype=torch.long, device=backbone.device))
    return cache


def _cache_of(backbone: Backbone, layers: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    cache: Any = DynamicCache(config=backbone.decoder.config)
    for layer, (keys, values) in zip(cache.layers, layers, strict=True):
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
    return cache


def _stack(tensors: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """(1 × heads × own length × dim) tensors to (rows × heads × length × dim), zeros behind the shorter."""
    first = tensors[0]
    if all(tensor is first for tensor in tensors):
        return first.expand(len(tensors), -1, -1, -1)
    stacked = first.new_zeros(len(tensors), first.shape[1], length, first.shape[3])
    for row, tensor in zip(stacked, tensors, strict=True):
        row[:, : tensor.shape[2]] = tensor[0]
    return stacked


def _state(cache: Any, length: int) -> PrefixState:
    return PrefixState(cache, length, sum(t.nbytes for t in tensors_of(cache)))
