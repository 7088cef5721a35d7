"""`Forward`: trees in, hidden states at their read positions out, by the strategy that is cheapest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from reflex.backbones.backbone import Backbone
from reflex.errors import ConfigError, ContextLengthError
from reflex.forward import calls
from reflex.forward.config import ForwardConfig
from reflex.forward.state_cache import HeadStates, StateCache
from reflex.forward.strategies import Strategies
from reflex.forward.tree import Tree


@dataclass
class ForwardResult:
    """hidden: per tree, (reads × hidden) in segment order. cache_hits: per tree, was the prefix cached."""

    hidden: list[torch.Tensor]
    cache_hits: list[bool]
    strategies: list[str] = field(default_factory=list)


class Forward:
    """Runs trees through one backbone. Everything that asks the model anything goes through `run`."""

    def __init__(self, backbone: Backbone, config: ForwardConfig) -> None:
        self.backbone = backbone
        self.config = config
        self.cache = StateCache(config.state_cache_mb << 20)
        self.heads = HeadStates(lambda ids: calls.prefill(backbone, [ids])[0])
        if config.strategy == "packed" and not backbone.facts.packable:
            raise ConfigError(
                f"forward.strategy=packed: refused for {backbone.facts.name}: "
                f"{backbone.facts.why_not_packable}; use batched, flat or auto"
            )

    def run(self, trees: Sequence[Tree]) -> ForwardResult:
        """Hidden states at every read of every tree.

        Where gradients are recorded, caches are not used: attention-only backbones run packed tree rows,
        others flat rows. Raises ContextLengthError for a tree longer than the context.
        """
        for tree in trees:
            self.check_length(tree)
        gradients = torch.is_grad_enabled() and any(
            parameter.requires_grad for parameter in self.backbone.parameters()
        )
        heads = None if gradients else self.heads
        run = Strategies(self.backbone, self.config, self.cache, heads, trees)
        names = self._strategies(trees, gradients)
        for name, method in (
            ("tree_rows", run.tree_rows),
            ("flat", run.flat),
            ("packed", run.packed),
            ("batched", run.batched),
        ):
            chosen = [index for index, wanted in enumerate(names) if wanted == name]
            if chosen:
                method(chosen)
        return ForwardResult(run.collect(), run.cache_hits, names)

    def _strategies(self, trees: Sequence[Tree], gradients: bool) -> list[str]:
        packable = self.backbone.facts.packable
        if gradients:
            rows = packable and self.config.strategy != "flat"
            return ["tree_rows" if rows else "flat"] * len(trees)
        if self.config.strategy != "auto":
            return [self.config.strategy if tree.prefix else "flat" for tree in trees]
        shared = "packed" if packable else "batched"
        alike: dict[str, list[Tree]] = {}
        for tree in trees:
            alike.setdefault(tree.prefix_key, []).append(tree)
        share = {key: self._worth_sharing(key, group) for key, group in alike.items()}
        return [shared if share[tree.prefix_key] else "flat" for tree in trees]

    def _worth_sharing(self, key: str, trees: Sequence[Tree]) -> bool:
        """Whether `auto` computes (or fetches) the prefix of these trees once instead of in every row."""
        length = len(trees[0].prefix)
        if length == 0:
            return False
        if length > self.config.max_tokens:
            return True  # only a state can be read in slices
        reused = self.config.reuse_tokens
        if reused and (length >= reused or key in self.cache):
            return True
        return self.reread_tokens(trees) > self.config.crossover_tokens

    def reread_tokens(self, trees: Sequence[Tree]) -> int:
        """Tokens of one prefix that `flat` would read again over these trees, which all begin with it; the
        prompt's own words are not counted, since every row continues their state."""
        head = trees[0].head if trees[0].head >= self.heads.MIN_TOKENS else 0
        leaves = sum(len(tree.leaf_paths) for tree in trees)
        reread = sum(tree.reread_tokens for tree in trees) + (len(trees) - 1) * len(trees[0].prefix)
        return reread - head * (leaves - 1)

    def check_length(self, tree: Tree) -> None:
        """Raise ContextLengthError for a tree that does not fit; nothing is ever truncated."""
        limit = self.backbone.facts.context_length
        if tree.longest > limit:
            raise ContextLengthError(
                f"the state ({len(tree.prefix)} tokens) and its longest question "
                f"({tree.longest - len(tree.prefix)} tokens) exceed the context of "
                f"{self.backbone.facts.name} ({limit} tokens); shorten them, nothing is truncated"
            )
