"""Whether a model's logits are its vocabulary projection and nothing else, which is what label rows compute."""

from __future__ import annotations

from typing import Any

import torch

from reflex.errors import BackboneError, brief

TOKENS = 8


@torch.no_grad()
def check_head(model: Any, name: str) -> None:
    """Raise BackboneError for a model that scales, caps or otherwise changes hidden states or logits around its
    head. Exact in every dtype: in one call over a few tokens the head answers known numbers, which have to come
    out as they are, and is given what the decoder returned."""
    head = model.get_output_embeddings()
    seen: dict[str, torch.Tensor] = {}

    def decoded(_module: Any, _args: Any, output: Any) -> None:
        seen["decoded"] = output.last_hidden_state

    def projected(_module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        seen["given"] = args[0]
        steps = torch.linspace(-100, 100, output.numel(), device=output.device)
        seen["answered"] = steps.reshape(output.shape).to(output.dtype)
        return seen["answered"]

    if not isinstance(head, torch.nn.Linear):
        raise BackboneError(f"backbone {name}: has no linear head to read label rows from")
    hooks = [
        model.get_decoder().register_forward_hook(decoded),
        head.register_forward_hook(projected),
    ]
    try:
        ids = torch.arange(TOKENS, device=head.weight.device)[None]
        logits = model(input_ids=ids, use_cache=False).logits
    except Exception as error:  # models fail in a dozen classes
        raise BackboneError(f"backbone {name}: a first call fails ({brief(error)})") from None
    finally:
        for hook in hooks:
            hook.remove()
    if "given" not in seen or not torch.equal(seen["given"], seen["decoded"]):
        raise BackboneError(f"backbone {name}: changes hidden states before its head; {_WHY}")
    if not torch.equal(logits.float(), seen["answered"].float()):
        raise BackboneError(f"backbone {name}: scales or caps the logits of its head; {_WHY}")


_WHY = "label rows do not reproduce that, so choose another backbone"
