"""`Backbone`: model, tokenizer and facts, and the vocabulary projection restricted to label rows."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from reflex.backbones.config import BackboneConfig, BackboneFacts, DeviceConfig
from reflex.backbones.dtype import resolve_dtype, torch_device
from reflex.backbones.head_check import check_head
from reflex.backbones.locate import BackboneFiles, locate
from reflex.backbones.padding import Cells
from reflex.backbones.tokens import PromptTokenizer
from reflex.errors import BackboneError, brief

log = logging.getLogger(__name__)


class Backbone(torch.nn.Module):
    """A causal LM that is asked for hidden states and for the logits of a few label tokens.

    `cells` counts what its calls lay out; who wants a window of them clears it.
    """

    def __init__(self, model: Any, tokenizer: Any, facts: BackboneFacts) -> None:
        super().__init__()
        self.model = model
        self.tokens = PromptTokenizer(tokenizer)
        self.tokenizer = tokenizer
        self.facts = facts
        self.cells = Cells()
        # transformers 5.24 renamed the argument; older releases silently ignore the new spelling.
        names = inspect.signature(self.decoder.forward).parameters
        self.cache_argument = "cache" if "cache" in names else "past_key_values"

    @property
    def decoder(self) -> Any:
        """The stack below the vocabulary projection (inside any adapter wrapper)."""
        model = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        return model.get_decoder()

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    @property
    def hidden_size(self) -> int:
        return int(self.model.get_input_embeddings().weight.shape[1])

    def label_logits(self, hidden_nd: torch.Tensor, label_ids: Sequence[int]) -> torch.Tensor:
        """float32 logits (n × labels) of `label_ids` only: those rows of the projection, no others."""
        head = self.model.get_output_embeddings()
        ids = torch.as_tensor(label_ids, device=head.weight.device)
        logits = hidden_nd.float() @ head.weight[ids].float().T
        return logits if head.bias is None else logits + head.bias[ids].float()

    def token_logits(self, hidden_nd: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
        """float32 logit (n,) of one token per row: row i scores `ids[i]`."""
        head = self.model.get_output_embeddings()
        index = torch.as_tensor(ids, device=head.weight.device)
        logits = (hidden_nd.float() * head.weight[index].float()).sum(-1)
        return logits if head.bias is None else logits + head.bias[index].float()

    def log_normalisers(self, hidden_nd: torch.Tensor, rows: int = 64) -> torch.Tensor:
        """logsumexp (n,) over the whole vocabulary, in slices of `rows`, float32."""
        head = self.model.get_output_embeddings()
        parts = [head(chunk).float().logsumexp(-1) for chunk in hidden_nd.split(rows)]
        return torch.cat(parts) if parts else hidden_nd.new_zeros(0, dtype=torch.float32)


def load_backbone(
    config: BackboneConfig, device: DeviceConfig, *, as_stored: bool = False
) -> Backbone:
    """Load weights and tokenizer, merge the adapter, move to device and dtype, freeze.

    as_stored: in float32 whatever the dtype, for who adds an update and then casts (reflex/training/lora.py).
    Raises BackboneError, AssetError or ConfigError with one clear line.
    """
    files = locate(config)
    dtype = resolve_dtype(device)
    target = torch_device(device.name)
    # An update is added in float32 and rounded once: most of it would be lost in a rounded weight.
    adds = as_stored or files.adapter_folder is not None
    read_as = torch.float32 if adds else getattr(torch, dtype)
    model, tokenizer = _read(config, files, read_as)
    if files.adapter_folder is not None:
        model = _adapted(config, model, files.adapter_folder)
    held = torch.float32 if as_stored else getattr(torch, dtype)
    model = model.to(device=target, dtype=held).eval().requires_grad_(False)
    facts = _facts(config, files, model, dtype, device.name)
    check_head(model, config.name)
    return Backbone(model, tokenizer, facts)


def _read(config: BackboneConfig, files: BackboneFiles, dtype: torch.dtype) -> tuple[Any, Any]:
    if files.folder is None:
        from reflex.backbones.random_model import random_model

        return random_model(config.path, config.seed, config.attention)
    from transformers import AutoTokenizer
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(files.folder)
        pair: Any = _auto_class(files.folder).from_pretrained(
            files.folder,
            dtype=dtype,
            attn_implementation=config.attention,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:  # configs, tokenizers and tensor files fail in a dozen classes
        raise BackboneError(f"backbone {config.name} ({files.folder}): {brief(error)}") from None
    model, loaded = pair
    _keep_text(model)
    # transformers fills absent weights with random ones and only warns.
    if absent := sorted(set(loaded["missing_keys"]) & model.state_dict().keys()):
        raise BackboneError(
            f"backbone {config.name} ({files.folder}): {len(absent)} weights are not in its files, "
            f"the first is {absent[0]}; the folder is incomplete or not a causal language model"
        )
    return model, tokenizer


def _adapted(config: BackboneConfig, model: Any, folder: Path) -> Any:
    """The model with the adapter merged. Raises BackboneError for one that was trained on another model."""
    from peft import PeftModel

    try:
        with warnings.catch_warnings():
            # peft leaves what the files lack untrained, and only warns.
            warnings.filterwarnings("error", "Found missing adapter keys")
            return PeftModel.from_pretrained(model, folder).merge_and_unload()
    except Exception as error:  # configurations, shapes and tensor files fail in a dozen classes
        raise BackboneError(
            f"backbone.adapter={config.adapter}: it does not fit backbone={config.name} "
            f"({brief(error)}); name the backbone that it was trained on"
        ) from None


def _auto_class(folder: Path) -> Any:
    """What reads the language model in `folder`: alone, or inside an image-text model where there is no such class."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
    )

    kind = type(AutoConfig.from_pretrained(folder))
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING and kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return AutoModelForImageTextToText
    return AutoModelForCausalLM


def _keep_text(model: Any) -> None:
    """Drop what stands beside an image-text model's decoder (vision tower, projector); names stay as they are."""
    decoder, body = model.get_decoder(), model.base_model
    if decoder is body:
        return
    for name, part in list(body.named_children()):
        if all(module is not decoder for module in part.modules()):
            delattr(body, name)


def _facts(
    config: BackboneConfig, files: BackboneFiles, model: Any, dtype: str, device: str
) -> BackboneFacts:
    text = model.config.get_text_config()
    context = getattr(text, "max_position_embeddings", None)
    if context is None:
        raise BackboneError(
            f"backbone {config.name}: its configuration says no context length (max_position_embeddings), "
            "and nothing is ever truncated; choose another backbone"
        )
    layers = set(getattr(text, "layer_types", None) or ["full_attention"])
    if getattr(text, "sliding_window", None) and "layer_types" not in text.to_dict():
        layers.add("sliding_attention")
    leaky = sorted(layers - {"full_attention"})
    why = ""
    if leaky:
        why = f"{', '.join(leaky)} layers ignore a block mask, so packed branches would see each other"
    elif (
        config.attention != "sdpa"
    ):  # others add the mask to the scores: a boolean one hides nothing
        why = f"attention={config.attention} is not exact with boolean block masks; use sdpa"
    return BackboneFacts(
        name=config.name,
        source=config.source,
        revision=files.revision,
        weights_sha256=files.weights_sha256,
        architecture=type(model).__name__,
        context_length=int(context),
        packable=not why,
        why_not_packable=why,
        dtype=dtype,
        device=device,
        attention=config.attention,
        adapter_sha256=files.adapter_sha256,
        kernels=_kernels(leaky),
    )


def _kernels(leaky: list[str]) -> tuple[str, ...]:
    """Fused kernels in use by linear-attention layers on this machine."""
    if "linear_attention" not in leaky or not torch.cuda.is_available():
        return ()
    from importlib.util import find_spec

    return tuple(name for name in ("fla", "causal_conv1d") if find_spec(name))
