"""The trained part of the `pointer` readout, and heads files. float32 throughout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from reflex.errors import ReadoutError

if TYPE_CHECKING:
    from reflex.readouts.pointer import Config


class PointerHead(torch.nn.Module):
    """score(option, question) = w·o + (U q)·(V o) / √rank, the second term only with `rank` > 0.

    Starts at zero (every option equally likely): U is zero, so the product grows from nothing.
    """

    def __init__(self, hidden: int, rank: int) -> None:
        super().__init__()
        self.rank = rank
        self.linear = torch.nn.Linear(hidden, 1, bias=False)
        torch.nn.init.zeros_(self.linear.weight)
        if rank:
            self.question = torch.nn.Linear(hidden, rank, bias=False)
            self.option = torch.nn.Linear(hidden, rank, bias=False)
            torch.nn.init.zeros_(self.question.weight)
            # A generator of its own: building a model must not move the global one.
            generator = torch.Generator().manual_seed(0)
            torch.nn.init.normal_(self.option.weight, std=hidden**-0.5, generator=generator)

    def forward(self, options_nd: torch.Tensor, questions_nd: torch.Tensor) -> torch.Tensor:
        """Scores (n,) of options beside the question each belongs to."""
        scores = self.linear(options_nd).squeeze(-1)
        if self.rank:
            product = self.question(questions_nd) * self.option(options_nd)
            scores = scores + product.sum(-1) / self.rank**0.5
        return scores


def make_head(config: Config, hidden: int) -> PointerHead:
    return PointerHead(hidden, config.rank if config.head == "bilinear" else 0).float()


def load_head(head: torch.nn.Module, path: str, name: str) -> None:
    """Load the tensors `<name>.*` of a heads file into `head`. Raises ReadoutError naming the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = Path(path)
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise ReadoutError(f"{file}: not a heads file that can be read ({error})") from None
    own = {
        key.removeprefix(f"{name}."): value
        for key, value in tensors.items()
        if key.startswith(f"{name}.")
    }
    expected = {key: tuple(value.shape) for key, value in head.state_dict().items()}
    if {key: tuple(value.shape) for key, value in own.items()} != expected:
        raise ReadoutError(
            f"{file}: holds no {name} head of this shape (wanted {sorted(expected.items())}); "
            "use the readout settings it was trained with"
        )
    head.load_state_dict(own)
