"""Mends after which the same configuration trains otherwise than it did.

Each is named in the identity of the trainings it changes, and of no others: what was trained before it is
never taken for what would be trained now.
"""

from __future__ import annotations

from omegaconf import DictConfig

from reflex.readouts.base import used_readouts

BY_RULE = frozenset({"fact_edits", "word_swaps"})
ANSWERED = frozenset({"fact", "safety", "paraphrase"})
"""Families that took states of `quality` for foreign ones, and it theirs."""


def corrections(cfg: DictConfig) -> list[str]:
    """Names of those that change the training of a configuration."""
    from reflex.backbones.dtype import resolve_dtype
    from reflex.build import to_object
    from reflex.data.sources import source

    found = []
    if "candidates" in used_readouts(cfg.readout):
        found.append("options read apart count as tokens")
    if cfg.train.method == "lora" and resolve_dtype(to_object(cfg.device)) != "float32":
        found.append("LoRA adds to the weights as stored")
    if BY_RULE & set(cfg.mixture.sources):
        found.append("pairs made by rule are what their label says")
    families = {source(name).family for name in cfg.mixture.sources}
    if cfg.mixture.augment.abstain and "quality" in families and families & ANSWERED:
        found.append("no states that answer stand in for foreign ones")
    return found
