"""Trained parts as files: a PEFT adapter folder and one heads file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file

from reflex.model import DecisionModel
from reflex.training.lora import lora_layers
from reflex.training.lora_config import LoraConfig


def save_adapter(
    model: torch.nn.Module,
    folder: Path,
    config: LoraConfig,
    base: str,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the update as a PEFT adapter (adapter_config.json, adapter_model.safetensors), files whole."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    targets = set()
    for name, layer in lora_layers(model):
        targets.add(name.rpartition(".")[2])
        for part, value in (("lora_A", layer.a), ("lora_B", layer.b)):
            key = f"base_model.model.{name}.{part}.weight"
            tensors[key] = value.detach().to("cpu", dtype).contiguous()
    description = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(targets),
        "inference_mode": True,
    }
    temporary = folder / "adapter_model.tmp"
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, folder / "adapter_model.safetensors")
    text = folder / "adapter_config.tmp"
    text.write_text(json.dumps(description, indent=1) + "\n")
    os.replace(text, folder / "adapter_config.json")


def save_heads(model: DecisionModel, path: Path, dtype: torch.dtype = torch.float32) -> str | None:
    """Every readout's head in one file (`<readout>.<tensor>`); None when there is none."""
    tensors = {
        name: value.detach().to("cpu", dtype).contiguous()
        for name, value in model.heads.state_dict().items()
    }
    if not tensors:
        return None
    temporary = path.with_suffix(".tmp")
    save_file(tensors, temporary)
    os.replace(temporary, path)
    return path.name
