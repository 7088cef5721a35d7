"""Trained parts as files: a PEFT adapter folder and one heads file."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from reflex.backbones.backbone import Backbone
from reflex.errors import ConfigError
from reflex.files import sync_file, write_atomic, write_atomic_all
from reflex.model import DecisionModel
from reflex.training.lora import lora_layers, merge_all
from reflex.training.lora_config import LoraConfig


def save_adapter(
    model: torch.nn.Module,
    folder: Path,
    config: LoraConfig,
    base: str,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the update as a PEFT adapter (adapter_config.json, adapter_model.safetensors), files whole.

    Raises RecordError where they cannot be written.
    """
    tensors = {
        key: value.detach().to("cpu", dtype).contiguous()
        for key, value in _adapter_tensors(model).items()
    }
    targets = {name.rpartition(".")[2] for name, _ in lora_layers(model)}
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
    text = json.dumps(description, indent=1) + "\n"
    write_atomic_all(
        {
            folder / "adapter_model.safetensors": save(tensors, metadata={"format": "pt"}),
            folder / "adapter_config.json": text.encode(),
        }
    )


@torch.no_grad()
def load_adapter(model: torch.nn.Module, folder: Path, config: LoraConfig) -> None:
    """Give the update of `model` (`add_lora`) the values that `save_adapter` or PEFT wrote to `folder`.

    Raises ConfigError unless rank, scale and layers are the same.
    """
    where = f"backbone.adapter={folder}"
    try:
        described = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "adapter_model.safetensors")
        found = {"rank": described["r"], "alpha": described["lora_alpha"]}
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ConfigError(f"{where}: not a readable LoRA adapter ({error})") from None
    if odd := [key for key in ("use_rslora", "use_dora") if described.get(key)]:
        raise ConfigError(
            f"{where}: made with {', '.join(odd)}, which training here does not compute"
        )
    for key, value in found.items():
        if value != getattr(config, key):
            raise ConfigError(
                f"{where}: its {key} is {value}, train.lora.{key} is {getattr(config, key)}; "
                "a training goes on with the adapter's own"
            )
    own = _adapter_tensors(model)
    if different := sorted(own.keys() ^ tensors.keys()):
        raise ConfigError(
            f"{where}: other layers than train.lora.targets={config.targets} ({different[0]}, "
            f"{len(different)} in all)"
        )
    for key, value in own.items():
        if value.shape != tensors[key].shape:
            raise ConfigError(
                f"{where}: {key} is {tuple(tensors[key].shape)}, this backbone's {tuple(value.shape)}"
            )
        value.copy_(tensors[key])
    merge_all(model)


def _adapter_tensors(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {
        f"base_model.model.{name}.{part}.weight": value
        for name, layer in lora_layers(model)
        for part, value in (("lora_A", layer.a), ("lora_B", layer.b))
    }


def save_backbone(backbone: Backbone, folder: Path) -> None:
    """All weights and the tokenizer, as transformers writes them."""
    backbone.model.save_pretrained(folder)
    backbone.tokenizer.save_pretrained(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            sync_file(path)


def save_heads(model: DecisionModel, path: Path) -> str | None:
    """Every readout's head in one float32 file (`<readout>.<tensor>`); None when there is none.

    Raises RecordError where it cannot be written.
    """
    tensors = {
        name: value.detach().to("cpu", torch.float32).contiguous()
        for name, value in model.heads.state_dict().items()
    }
    if not tensors:
        return None
    write_atomic(path, save(tensors))
    return path.name
