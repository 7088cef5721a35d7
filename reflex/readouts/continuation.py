"""`continuation`: how probable each option's own text is after the prompt, token by token.

What a small untrained model can do: it has never seen a lettered question, but it knows which text is likely
to follow. Options are segments below the question that share everything before them; a token's
log-probability is read at the token before it, over the full vocabulary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reflex.checks import check_choice
from reflex.contract import Choice, Question, option_keys
from reflex.prompts.pieces import Piece
from reflex.prompts.prompt import Branch
from reflex.readouts import base

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig
    from reflex.forward.tree import Segment

NAME = "continuation"
SCORES = ("mean", "sum", "prior")
TEXTS = ("names", "full")
_PRIORS_KEPT = 4096


@dataclass
class Config:
    """score: `sum` of the tokens' log-probabilities; `mean` per token; `prior`: the sum minus the sum after
    the same prompt over `prior_state`, so that texts that are likely anyhow gain nothing by it.
    text: what follows the prompt for a choice, its `names` or `full` (name and description).
    listed: show the options in the prompt, in every order; without it there is one order to ask."""

    score: str = "mean"
    text: str = "names"
    listed: bool = False
    prior_state: str = "N/A"

    def __post_init__(self) -> None:
        check_choice("readout.continuation.score", self.score, SCORES)
        check_choice("readout.continuation.text", self.text, TEXTS)


class Readout(base.Readout):
    """All three question types."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        super().__init__(config, backbone, style, forward)
        self._priors: OrderedDict[Any, torch.Tensor] = OrderedDict()
        self._engine: Any = None

    # -- rendering -----------------------------------------------------------------------------

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> Iterator[Branch]:
        keys = option_keys(question)
        full = self.style.option_texts(question)
        names = keys if isinstance(question, Choice) and self.config.text == "names" else full
        for key, name in zip(keys, names, strict=True):
            base.require_text(question_id, key, name)
        for number, order in enumerate(orders if self.config.listed else [orders[0]]):
            listed = [("", full[i]) for i in order] if self.config.listed else []
            text = self.style.branch(self.template, question, listed, "text_ask")
            options = tuple((Piece(self.prefix + names[i]),) for i in order)
            shown = tuple(keys[i] for i in order)
            yield Branch(question_id, number, 0, text, shown, options=options)

    def segments(self, branch: Branch, first: int) -> list[Segment]:
        from reflex.forward.tree import Segment

        asked = self.backbone.tokens.encode(branch.text)
        found = [Segment(asked, -1, (len(asked) - 1,))]
        for _, ids in self._canonical(branch):
            found.append(Segment(ids, first, tuple(range(len(ids) - 1))))
        return found

    def _canonical(self, branch: Branch) -> list[tuple[int, tuple[int, ...]]]:
        """(place in the branch, ids) of the options, sorted by ids: the caller's order does not decide
        where an option lies in the forward."""
        return sorted(enumerate(self.option_ids(branch)), key=lambda option: (option[1], option[0]))

    # -- scores --------------------------------------------------------------------------------

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        import torch

        sums = self._log_probabilities(branches, hidden)
        if self.config.score == "sum":
            return [total for total, _ in sums]
        if self.config.score == "mean":
            return [total / count for total, count in sums]
        training = torch.is_grad_enabled()
        if training:
            self._forget()  # other weights made them: an earlier step's, or the frozen ones
        priors = [self._prior(branch) for branch in branches]
        if training:
            self._forget()  # these weights are about to change
        return [total - prior for (total, _), prior in zip(sums, priors, strict=True)]

    def _log_probabilities(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Per branch, in the order of its keys: summed log-probability and number of tokens."""
        import torch

        read: list[int] = []  # the row that predicts each token
        tokens: list[int] = []
        option: list[int] = []  # the option each token belongs to, over all branches
        start = options = 0
        for branch, rows in zip(branches, hidden, strict=True):
            at = start + 1
            for place, ids in self._canonical(branch):
                read += [start, *range(at, at + len(ids) - 1)]
                tokens += ids
                option += [options + place] * len(ids)
                at += len(ids) - 1
            start += len(rows)
            options += len(branch.keys)
        rows_nd = torch.cat(list(hidden))
        norm_n = self.backbone.log_normalisers(rows_nd)
        index = torch.tensor(read, device=rows_nd.device)
        logits = self.backbone.token_logits(rows_nd[index], tokens)
        owner = torch.tensor(option, device=rows_nd.device)
        zeros = torch.zeros(options, device=rows_nd.device)
        totals = zeros.index_add(0, owner, logits - norm_n[index])
        counts = zeros.index_add(0, owner, torch.ones_like(logits))
        sizes = [len(branch.keys) for branch in branches]
        return list(zip(totals.split(sizes), counts.split(sizes), strict=True))

    def _prior(self, branch: Branch) -> torch.Tensor:
        """Summed log-probability of every option after the same question over the content-free state.

        Asked once per question, in training once per call; nothing of the request's own state is in it.
        """
        import torch

        key = (branch.text, branch.options)
        if key not in self._priors:
            from reflex.forward.engine import Forward
            from reflex.forward.tree import Tree

            if self._engine is None:
                # A state of its own, asked once per question: whatever the model's strategy, and a small cache.
                own = replace(
                    self.forward,
                    strategy="auto",
                    reuse_tokens=0,
                    state_cache_mb=min(64, self.forward.state_cache_mb),
                )
                self._engine = Forward(self.backbone, own)
            pieces = self.style.prefix(self.template, self.config.prior_state)
            prefix = self.backbone.tokens.encode(pieces, start=True)
            with torch.no_grad():
                tree = Tree(prefix, tuple(self.segments(branch, 0)))
                hidden = self._engine.run([tree]).hidden
                self._priors[key] = self._log_probabilities([branch], hidden)[0][0]
            if len(self._priors) > _PRIORS_KEPT:
                self._priors.popitem(last=False)
        return self._priors[key]

    def _forget(self) -> None:
        """Drop the priors, and the engine with its states of their prefix."""
        self._priors.clear()
        self._engine = None
