"""Attention by plain products equals torch's kernel, gradients too."""

from __future__ import annotations

import pytest
import torch

from reflex.forward.product_attention import product_attention


@pytest.mark.parametrize("shared", [1, 3, 9])
@pytest.mark.parametrize("masked", [True, False])
def test_equals_torch_with_gradients(shared: int, masked: bool):
    torch.manual_seed(shared)
    query = torch.randn(2, 9, 17, 8, requires_grad=True)
    key, value = (torch.randn(2, shared, 17, 8, requires_grad=True) for _ in range(2))
    mask = (torch.rand(2, 1, 17, 17) < 0.4) | torch.eye(17, dtype=torch.bool) if masked else None
    found, _ = product_attention(torch.nn.Identity(), query, key, value, mask)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=not masked, enable_gqa=True
    ).transpose(1, 2)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    weights = torch.randn_like(found)
    inputs = (query, key, value)
    for own, other in zip(
        torch.autograd.grad((found * weights).sum(), inputs),
        torch.autograd.grad((wanted * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)
