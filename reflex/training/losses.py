"""Proper scoring rules over a question's options, for hard and soft targets alike.

All functions take padded matrices: log-probabilities and targets (questions × options), `mask` True where
an option exists; they return one loss per question (q,).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reflex.readouts.base import OptionScores
from reflex.training.loss_config import LossConfig


def nll(log_p_qk: torch.Tensor, target_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    """−Σ t log p. An option with target 0 adds exactly nothing, whatever its probability."""
    terms = torch.where(mask_qk & (target_qk > 0), target_qk * log_p_qk, torch.zeros_like(log_p_qk))
    return -terms.sum(-1)


def brier(log_p_qk: torch.Tensor, target_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    """Σ (p − t)²."""
    return (_probabilities(log_p_qk, mask_qk) - target_qk).square().sum(-1)


def rps(log_p_qk: torch.Tensor, target_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    """Σ over cut points (P(≤k) − T(≤k))² / (n − 1); 0 for a single level."""
    difference = (_probabilities(log_p_qk, mask_qk) - target_qk).cumsum(-1)
    cuts = (mask_qk.sum(-1) - 1).clamp(min=1)
    return torch.where(mask_qk, difference, 0.0).square().sum(-1) / cuts


def ordinal(log_p_qk: torch.Tensor, target_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    """Expected squared distance between a level drawn from p and one from t, over (n − 1)²."""
    levels = torch.arange(log_p_qk.shape[1], device=log_p_qk.device, dtype=log_p_qk.dtype)
    distance = (levels[:, None] - levels[None, :]).square()
    span = (mask_qk.sum(-1) - 1).clamp(min=1).to(log_p_qk.dtype)
    p = _probabilities(log_p_qk, mask_qk)
    return torch.einsum("qi,ij,qj->q", p, distance, target_qk) / span.square()


def combined(
    log_p_qk: torch.Tensor,
    target_qk: torch.Tensor,
    mask_qk: torch.Tensor,
    ordered_q: torch.Tensor,
    config: LossConfig,
) -> torch.Tensor:
    """The weighted terms of every question (q,); `ordered_q` marks `score` questions."""
    total = torch.zeros(log_p_qk.shape[0], dtype=log_p_qk.dtype, device=log_p_qk.device)
    for term, weight, ordered_only in (
        (nll, config.nll, False),
        (brier, config.brier, False),
        (rps, config.rps, True),
        (ordinal, config.ordinal, True),
    ):
        if weight:
            value = weight * term(log_p_qk, target_qk, mask_qk)
            total = total + (torch.where(ordered_q, value, 0.0) if ordered_only else value)
    return total


def question_losses(
    scored: Sequence[OptionScores], targets: Sequence[dict[str, float]], config: LossConfig
) -> torch.Tensor:
    """Loss of every question (q,), the mean over its orders, in float32 with gradient."""
    rows: list[torch.Tensor] = []
    wanted: list[list[float]] = []
    owner: list[int] = []
    for index, (scores, target) in enumerate(zip(scored, targets, strict=True)):
        for keys, raw in zip(scores.order_keys, scores.scores, strict=True):
            log_p = raw.float().log_softmax(-1)
            if scores.expand is not None:
                matrix = torch.tensor(scores.expand, dtype=log_p.dtype, device=log_p.device)
                log_p = (log_p.exp() @ matrix).clamp_min(1e-12).log()
                keys = scores.keys
            elif scores.type == "score" and keys != scores.keys:
                place = {key: i for i, key in enumerate(keys)}
                log_p = log_p[torch.tensor([place[key] for key in scores.keys], device=raw.device)]
                keys = scores.keys
            rows.append(log_p)
            wanted.append([target[key] for key in keys])
            owner.append(index)
    width = max(len(row) for row in rows)
    device = rows[0].device
    log_p_qk = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
    target_qk = torch.tensor([each + [0.0] * (width - len(each)) for each in wanted], device=device)
    sizes = torch.tensor([len(row) for row in rows], device=device)
    mask_qk = torch.arange(width, device=device) < sizes[:, None]
    ordered_q = torch.tensor([scored[i].type == "score" for i in owner], device=device)
    per_order = combined(log_p_qk, target_qk.to(log_p_qk.dtype), mask_qk, ordered_q, config)
    owners = torch.tensor(owner, device=device)
    summed = torch.zeros(len(scored), dtype=per_order.dtype, device=device)
    summed = summed.index_add(0, owners, per_order)
    return summed / torch.bincount(owners, minlength=len(scored))


def _probabilities(log_p_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    return torch.where(mask_qk, log_p_qk.exp(), torch.zeros_like(log_p_qk))
