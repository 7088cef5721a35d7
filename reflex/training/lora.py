"""LoRA in PEFT's file format, computed with one dense product per layer.

y = x (W + s·B A)ᵀ. PEFT evaluates the two thin products beside the dense one for every token, which on a
CPU costs as much as the layer itself. Here the sum is formed once per optimiser step (`merge`) and the
forward is the dense layer alone: also exactly what is served, where adapters are merged. The thin products
remain in the backward pass only. W is kept in float32, as it is stored, so the sum is rounded once, as where
it is served: a small update to a weight that is already rounded would otherwise be lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reflex.errors import ConfigError
from reflex.training.lora_config import PRESETS, LoraConfig


class _MergedProduct(torch.autograd.Function):
    """x W̃ᵀ with W̃ = W + s·B A given merged; gradients reach x, A and B."""

    @staticmethod
    def forward(ctx: Any, x, a, b, merged, bias, scale):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, a, b, merged)
        ctx.scale = scale
        return torch.nn.functional.linear(x, merged, bias)

    @staticmethod
    def backward(ctx: Any, grad):  # type: ignore[no-untyped-def]
        x, a, b, merged = ctx.saved_tensors
        grad_x = grad @ merged if ctx.needs_input_grad[0] else None
        flat_x, flat_grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        a_low, b_low = a.to(x.dtype), b.to(x.dtype)
        grad_b = ctx.scale * ((flat_x @ a_low.T).T @ flat_grad).T.to(b.dtype)
        grad_a = ctx.scale * ((flat_grad @ b_low).T @ flat_x).to(a.dtype)
        return grad_x, grad_a, grad_b, None, None, None


class LoraLinear(torch.nn.Module):
    """A frozen linear layer with a trained low-rank update (A: rank × in, B: out × rank, float32)."""

    def __init__(
        self,
        base: torch.nn.Linear,
        config: LoraConfig,
        generator: torch.Generator,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        out_features, in_features = base.weight.shape
        self.scale = config.alpha / config.rank
        self.bias = base.bias
        device = base.weight.device
        a = torch.empty(config.rank, in_features)
        torch.nn.init.kaiming_uniform_(a, a=math.sqrt(5), generator=generator)
        self.a = torch.nn.Parameter(a.to(device))
        self.b = torch.nn.Parameter(torch.zeros(out_features, config.rank, device=device))
        self.dtype = dtype or base.weight.dtype
        self.frozen = False
        self.register_buffer("base", base.weight.detach().float(), persistent=False)
        merged = base.weight.detach().to(self.dtype, copy=True)
        self.register_buffer("merged", merged, persistent=False)

    @torch.no_grad()
    def merge(self) -> None:
        """Refresh the merged weight from A and B. Call after every change of them."""
        base: torch.Tensor = self.base  # type: ignore[assignment]
        self.merged.copy_(torch.addmm(base, self.b, self.a, alpha=self.scale))  # type: ignore[operator]

    @property
    def weight(self) -> torch.Tensor:
        return self.merged  # type: ignore[return-value]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.frozen:
            base: torch.Tensor = self.base  # type: ignore[assignment]
            return torch.nn.functional.linear(x, base.to(self.dtype), self.bias)
        return _MergedProduct.apply(x, self.a, self.b, self.merged, self.bias, self.scale)


def add_lora(
    model: torch.nn.Module, config: LoraConfig, seed: int, dtype: torch.dtype | None = None
) -> list[str]:
    """Replace the target linear layers of `model` in place; returns their module paths.

    dtype: of the forward (default: as `model` is). Everything is cast to it but what the sums are made of, W
    among it: give it a model whose weights are as stored.
    Raises ConfigError when the preset matches nothing.
    """
    wanted = PRESETS[config.targets]
    found = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name.rpartition(".")[2] in wanted
    ]
    if not found:
        raise ConfigError(f"train.lora.targets={config.targets}: this backbone has no such layer")
    generator = torch.Generator().manual_seed(seed)
    for name in found:
        parent, _, leaf = name.rpartition(".")
        holder = model.get_submodule(parent)
        setattr(holder, leaf, LoraLinear(getattr(holder, leaf), config, generator, dtype))
    if dtype is not None:
        _cast_others(model, dtype)
    return found


def _cast_others(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """What `model.to(dtype)` does, one tensor at a time, but for the tensors of `LoraLinear`'s own."""
    for module in model.modules():
        own = ("a", "b", "base", "merged") if isinstance(module, LoraLinear) else ()
        for name, parameter in module.named_parameters(recurse=False):
            if name not in own and parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype)
        for name, buffer in module.named_buffers(recurse=False):
            if name not in own and buffer.is_floating_point():
                setattr(module, name, buffer.to(dtype))


def lora_layers(model: torch.nn.Module) -> Iterator[tuple[str, LoraLinear]]:
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            yield name, module


def merge_all(model: torch.nn.Module) -> None:
    for _, layer in lora_layers(model):
        layer.merge()


@contextmanager
def frozen(model: torch.nn.Module) -> Iterator[None]:
    """Inside, the model computes as if it had never been trained: base weights, no update."""
    layers = [layer for _, layer in lora_layers(model)]
    for layer in layers:
        layer.frozen = True
    try:
        yield
    finally:
        for layer in layers:
            layer.frozen = False
