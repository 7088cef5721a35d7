"""Which layers get a low-rank update, and how large. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from reflex.checks import check_above_zero, check_choice, check_count

PRESETS = {
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
    "linear_attention": (
        "in_proj_qkv",
        "in_proj_z",
        "in_proj_a",
        "in_proj_b",
        "in_proj_qkvz",
        "in_proj_ba",
        "out_proj",
    ),
}
PRESETS["all"] = PRESETS["attention"] + PRESETS["mlp"] + PRESETS["linear_attention"]


@dataclass
class LoraConfig:
    """targets: a preset (attention, mlp, linear_attention, all); scale of the update is alpha / rank."""

    rank: int = 16
    alpha: float = 32.0
    targets: str = "all"

    def __post_init__(self) -> None:
        check_choice("train.lora.targets", self.targets, PRESETS)
        check_count("train.lora.rank", self.rank)
        check_above_zero("train.lora.alpha", self.alpha)
