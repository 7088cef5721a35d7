"""Set attention over separately encoded options. float32 throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from reflex.readouts.candidates import Config


class CandidatesHead(torch.nn.Module):
    """score_j = w · LayerNorm(c_j + q + Attention(c)_j), with c and q projected to `width`.

    The option's own projection is kept beside what it attends to: without it, options that attend alike
    would score alike.
    """

    def __init__(self, hidden: int, width: int, heads: int) -> None:
        super().__init__()
        self.question = torch.nn.Linear(hidden, width, bias=False)
        self.candidate = torch.nn.Linear(hidden, width, bias=False)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = torch.nn.LayerNorm(width)
        self.match = torch.nn.Linear(width, width, bias=False)
        self.score = torch.nn.Linear(width, 1, bias=False)

    def forward(
        self, questions_bd: torch.Tensor, candidates_bkd: torch.Tensor, mask_bk: torch.Tensor
    ) -> torch.Tensor:
        """Scores (b × k); −inf where `mask_bk` is False."""
        q = self.question(questions_bd)[:, None]
        c = self.candidate(candidates_bkd)
        seen, _ = self.attention(c, c, c, key_padding_mask=~mask_bk, need_weights=False)
        joined = self.norm(c + q + seen)
        match = (self.match(q) * c).sum(-1) / c.shape[-1] ** 0.5
        scores: torch.Tensor = self.score(joined).squeeze(-1) + match
        return scores.masked_fill(~mask_bk, float("-inf"))


def make_head(config: Config, hidden: int) -> CandidatesHead:
    """Seeded on its own: building a model must not move the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CandidatesHead(hidden, config.width, config.heads).float()
