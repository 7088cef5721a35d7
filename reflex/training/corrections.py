"""Mends after which the same configuration trains otherwise than it did.

Each is named in the identity of the trainings it changes, and of no others: what was trained before it is
never taken for what would be trained now.
"""

from __future__ import annotations

from omegaconf import DictConfig

from reflex.readouts.base import used_readouts


def corrections(cfg: DictConfig) -> list[str]:
    """Names of those that change the training of a configuration."""
    from reflex.backbones.dtype import resolve_dtype
    from reflex.build import to_object

    found = []
    if "candidates" in used_readouts(cfg.readout):
        found.append("options read apart count as tokens")
    if cfg.train.method == "lora" and resolve_dtype(to_object(cfg.device)) != "float32":
        found.append("LoRA adds to the weights as stored")
    return found
