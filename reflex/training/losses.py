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


def kl(log_r_qk: torch.Tensor, log_p_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    """KL(r ‖ p) = Σ r (log r − log p); an option that r rules out adds exactly nothing."""
    r_qk = _probabilities(log_r_qk, mask_qk)
    terms = torch.where(mask_qk & (r_qk > 0), r_qk * (log_r_qk - log_p_qk), torch.zeros_like(r_qk))
    return terms.sum(-1)


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
    scored: Sequence[OptionScores],
    targets: Sequence[dict[str, float]],
    config: LossConfig,
    frozen: Sequence[OptionScores | None] | None = None,
) -> torch.Tensor:
    """Loss of every question (q,), the mean over its orders, in float32 with gradient.

    `frozen`: what `anchor` holds on to, None for a question that has no frozen answer.
    """
    rows: list[torch.Tensor] = []
    wanted: list[list[float]] = []
    anchors: list[torch.Tensor] = []
    means: list[torch.Tensor] = []
    owner: list[int] = []
    for index, (scores, target) in enumerate(zip(scored, targets, strict=True)):
        own = [log_probabilities(scores, order) for order in range(len(scores.scores))]
        held = None if frozen is None else frozen[index]
        for order, (keys, log_p) in enumerate(own):
            rows.append(log_p)
            wanted.append([target[key] for key in keys])
            owner.append(index)
            # Without a frozen answer the anchor is the answer itself, and its term 0.
            anchors.append(log_p.detach() if held is None else log_probabilities(held, order)[1])
        means += mean_over_orders(own)
    device = rows[0].device
    log_p_qk = padded(rows)
    target_qk = padded([torch.tensor(each, dtype=log_p_qk.dtype, device=device) for each in wanted])
    sizes = torch.tensor([len(row) for row in rows], device=device)
    mask_qk = torch.arange(log_p_qk.shape[1], device=device) < sizes[:, None]
    ordered_q = torch.tensor([scored[i].type == "score" for i in owner], device=device)
    per_order = combined(log_p_qk, target_qk, mask_qk, ordered_q, config)
    if config.anchor:
        per_order = per_order + config.anchor * kl(padded(anchors).detach(), log_p_qk, mask_qk)
    if config.self_distill:
        per_order = per_order + config.self_distill * kl(padded(means), log_p_qk, mask_qk)
    owners = torch.tensor(owner, device=device)
    summed = torch.zeros(len(scored), dtype=per_order.dtype, device=device)
    summed = summed.index_add(0, owners, per_order)
    return summed / torch.bincount(owners, minlength=len(scored))


def log_probabilities(scores: OptionScores, order: int) -> tuple[tuple[str, ...], torch.Tensor]:
    """Option keys and log-probabilities (k,) of one order; levels of a `score` question in their own order,
    since its losses compare neighbours."""
    keys, raw = scores.order_keys[order], scores.scores[order]
    log_p = raw.float().log_softmax(-1)
    if scores.expand is not None:
        matrix = torch.tensor(scores.expand, dtype=log_p.dtype, device=log_p.device)
        return scores.keys, (log_p.exp() @ matrix).clamp_min(1e-12).log()
    if scores.type == "score" and keys != scores.keys:
        return scores.keys, log_p[_places(keys, scores.keys, raw.device)]
    return keys, log_p


def mean_over_orders(
    orders: Sequence[tuple[tuple[str, ...], torch.Tensor]],
) -> list[torch.Tensor]:
    """Per order, the log of the mean distribution over all orders, in that order's keys; no gradient."""
    first = orders[0][0]
    with torch.no_grad():
        aligned = [log_p[_places(keys, first, log_p.device)] for keys, log_p in orders]
        mean = torch.stack(aligned).exp().mean(0).log()
        return [mean[_places(first, keys, mean.device)] for keys, _ in orders]


def padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Rows of different length as one matrix, 0 behind the shorter ones."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def _places(keys: Sequence[str], wanted: Sequence[str], device: torch.device) -> torch.Tensor:
    """Where each of `wanted` stands in `keys`."""
    place = {key: i for i, key in enumerate(keys)}
    return torch.tensor([place[key] for key in wanted], device=device)


def _probabilities(log_p_qk: torch.Tensor, mask_qk: torch.Tensor) -> torch.Tensor:
    return torch.where(mask_qk, log_p_qk.exp(), torch.zeros_like(log_p_qk))
