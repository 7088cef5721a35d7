"""Attention as two matrix products and a softmax: what gradients flow through on a CPU.

torch's fused kernel has a slow backward pass on CPUs (three times its forward); for the short rows training
uses, plain products are 2 to 2.5 times faster forward and backward (decision 080). Key and value heads are
shared by groups of query heads without being copied.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "reflex_products"


def product_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """query (batch × heads × queries × width), key and value (batch × kv heads × keys × width), boolean
    mask (batch × 1 × queries × keys; None: causal). Returns (batch × queries × heads × width), None."""
    batch, heads, queries, width = query.shape
    shared, keys = key.shape[1], key.shape[2]
    rows = heads // shared * queries
    if attention_mask is None:
        sees = torch.ones(queries, keys, dtype=torch.bool, device=query.device)
        attention_mask = sees.tril(keys - queries).expand(batch, 1, queries, keys)
    bias = torch.zeros(attention_mask.shape, dtype=query.dtype, device=query.device)
    bias.masked_fill_(~attention_mask, torch.finfo(query.dtype).min)
    bias = bias.expand(batch, heads, queries, keys).reshape(batch * shared, rows, keys)
    scores = torch.baddbmm(
        bias,
        query.reshape(batch * shared, rows, width),
        key.reshape(batch * shared, keys, width).transpose(1, 2),
        alpha=width**-0.5 if scaling is None else scaling,
    )
    mixed = torch.bmm(scores.softmax(-1), value.reshape(batch * shared, keys, width))
    return mixed.view(batch, heads, queries, width).transpose(1, 2), None


def use_product_attention(model: Any) -> None:
    """Switch a transformers model to it, in place."""
    model.set_attn_implementation(NAME)


AttentionInterface.register(NAME, product_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
