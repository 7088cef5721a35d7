"""`DecisionModel`: requests in, option scores out. The one forward of the project.

Prompts, forward and readouts meet here and nowhere else; training, evaluation, calibration and serving all
call `DecisionModel.forward`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import takewhile
from typing import Any

import torch

from reflex.backbones.backbone import Backbone
from reflex.contract import Question, Request, option_keys
from reflex.errors import ConfigError
from reflex.forward.config import ForwardConfig
from reflex.forward.engine import Forward
from reflex.forward.tree import Segment, Tree
from reflex.prompts.orders import OrdersConfig, check_orders, option_orders
from reflex.prompts.prompt import Branch
from reflex.prompts.wording import variants
from reflex.readouts.base import OptionScores, Readout


@dataclass(frozen=True)
class Asked:
    """A question on its way through a tree: its branches and where their segments lie."""

    question_id: str
    question: Question
    readout: Readout
    branches: tuple[Branch, ...]
    spans: tuple[tuple[int, int], ...]
    """Per branch, [first, last) of its reads within the tree's reads."""
    tokens: int
    notes: dict[str, Any] | None = None
    """What is told with the answer, such as a router's choice."""


@dataclass(frozen=True)
class Prepared:
    """A request as a tree, ready for the forward."""

    tree: Tree
    asked: tuple[Asked, ...]


@dataclass
class ModelOutput:
    """Per request: scores by question id, tokens of the state, of each question, and cache use."""

    scores: list[dict[str, OptionScores]]
    state_tokens: list[int]
    question_tokens: list[dict[str, int]]
    cache_hits: list[bool]
    strategies: list[str] = field(default_factory=list)


class DecisionModel(torch.nn.Module):
    """Holds the backbone, the prompt style, the orders and a readout per question type.

    `readouts` names one readout per type (`choice`, `noul`, `score`) and carries each one's own config.
    """

    def __init__(
        self,
        backbone: Backbone,
        style: Any,
        orders: OrdersConfig,
        readouts: Any,
        forward: ForwardConfig,
    ) -> None:
        super().__init__()
        check_orders(orders)
        self.backbone = backbone
        self.style = style
        self.orders = orders
        self.engine = Forward(backbone, forward)
        names = {kind: getattr(readouts, kind) for kind in TYPES}
        built = {
            name: _readout(readouts, name, backbone, style) for name in sorted({*names.values()})
        }
        for readout in list(built.values()):
            for name in getattr(readout, "parts", ()):  # what a router chooses from
                if name not in built:
                    built[name] = _readout(readouts, name, backbone, style)
        self.built = built
        self.readouts = {kind: built[name] for kind, name in names.items()}
        styles = variants(style, backbone.tokens.template)
        first, second = (self._prefix(state) for state in ("a", "0"))
        self.head = first[: _common(first, second)]
        """Tokens that every prefix begins with: the prompt's own words before the state."""
        # One renderer per wording: the same readout (and head) that writes with other words.
        self.renderers = {
            name: tuple(_restyled(readout, each) for each in styles)
            for name, readout in built.items()
        }
        # Trained parts of readouts (float32), so that parameters() and state_dict() see them.
        heads = {name: getattr(readout, "head", None) for name, readout in built.items()}
        self.heads = torch.nn.ModuleDict({k: v for k, v in heads.items() if v is not None})

    # -- requests to trees ---------------------------------------------------------------------

    def prepare(self, request: Request) -> Prepared:
        """Render and tokenise a request. Raises PromptError or ReadoutError."""
        prefix = self._prefix(request.state)
        segments: list[Segment] = []
        asked = []
        reads = 0
        for question_id, question in request.questions.items():
            readout, notes = self.route(question)
            orders = option_orders(self.orders, question, request.permutations)
            branches = self._branches(readout, question_id, question, orders)
            spans, first = [], len(segments)
            for branch in branches:
                own = readout.segments(branch, len(segments))
                segments += own
                taken = sum(len(segment.reads) for segment in own)
                spans.append((reads, reads + taken))
                reads += taken
            size = sum(len(segment.ids) for segment in segments[first:])
            asked.append(
                Asked(question_id, question, readout, tuple(branches), tuple(spans), size, notes)
            )
        # At least one token of the prefix stays: a state is more than the prompt's own words.
        head = min(_common(prefix, self.head), len(prefix) - 1)
        return Prepared(Tree(prefix, tuple(segments), max(0, head)), tuple(asked))

    def _prefix(self, state: Any) -> tuple[int, ...]:
        tokens = self.backbone.tokens
        return tokens.encode(self.style.prefix(tokens.template, state), start=True)

    def route(self, question: Question) -> tuple[Readout, dict[str, Any] | None]:
        """The readout that scores `question`, and what a router says about its choice."""
        readout = self.readouts[question.type]
        route = getattr(readout, "route", None)
        if route is None:
            return readout, None
        name, why = route(question)
        return self.built[name], {"x_readout": name, "x_route": why}

    def _branches(
        self,
        readout: Readout,
        question_id: str,
        question: Question,
        orders: Sequence[tuple[int, ...]],
    ) -> list[Branch]:
        """Branches of every wording; wording w's orders follow those of wording w − 1."""
        found: list[Branch] = []
        for renderer in self.renderers[readout.name]:
            before = found[-1].order + 1 if found else 0
            own = renderer.branches(question_id, question, orders)
            found += (
                [replace(branch, order=before + branch.order) for branch in own] if before else own
            )
        return found

    # -- the one forward -----------------------------------------------------------------------

    def forward(self, requests: Sequence[Request | Prepared]) -> ModelOutput:
        """Option scores of every question of every request, in the order given.

        Scores are float32 on the backbone's device and carry gradients where the backbone or a head
        requires them.
        """
        compiled = [r if isinstance(r, Prepared) else self.prepare(r) for r in requests]
        result = self.engine.run([item.tree for item in compiled])
        by_readout: dict[str, list[tuple[int, int]]] = {}
        for i, item in enumerate(compiled):
            for j, asked in enumerate(item.asked):
                by_readout.setdefault(asked.readout.name, []).append((i, j))
        scored: dict[tuple[int, int], OptionScores] = {}
        for places in by_readout.values():
            branches: list[Branch] = []
            hidden: list[torch.Tensor] = []
            for i, j in places:
                asked = compiled[i].asked[j]
                branches += asked.branches
                hidden += [result.hidden[i][first:last] for first, last in asked.spans]
            readout = compiled[places[0][0]].asked[places[0][1]].readout
            scores = iter(readout.scores(branches, hidden))
            for i, j in places:
                asked = compiled[i].asked[j]
                own = [next(scores) for _ in asked.branches]
                scored[i, j] = _pool(asked, own, len(self.renderers[asked.readout.name]))
        return ModelOutput(
            scores=[
                {asked.question_id: scored[i, j] for j, asked in enumerate(item.asked)}
                for i, item in enumerate(compiled)
            ],
            state_tokens=[len(item.tree.prefix) for item in compiled],
            question_tokens=[
                {asked.question_id: asked.tokens for asked in item.asked} for item in compiled
            ],
            cache_hits=result.cache_hits,
            strategies=result.strategies,
        )


TYPES = ("choice", "noul", "score")


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many of their first tokens are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _readout(config: Any, name: str, backbone: Backbone, style: Any) -> Readout:
    own = getattr(config, name, None)
    if own is None:
        raise ConfigError(f"readout={name}: no such readout in reflex/readouts/")
    readout: Readout = import_module(f"reflex.readouts.{name}").Readout(own, backbone, style)
    return readout


def _restyled(readout: Readout, style: Any) -> Readout:
    """`readout` itself, or a copy of it (sharing backbone and head) that renders in another style."""
    if style is readout.style:
        return readout
    other = copy.copy(readout)
    other.style = style
    return other


def _pool(asked: Asked, scores: Sequence[torch.Tensor], wordings: int) -> OptionScores:
    """Join the pages of each order: they share one softmax."""
    order_keys: list[tuple[str, ...]] = []
    pooled: list[torch.Tensor] = []
    for order in sorted({branch.order for branch in asked.branches}):
        pages = [i for i, branch in enumerate(asked.branches) if branch.order == order]
        order_keys.append(tuple(key for i in pages for key in asked.branches[i].keys))
        pooled.append(torch.cat([scores[i] for i in pages]) if len(pages) > 1 else scores[pages[0]])
    return OptionScores(
        question_id=asked.question_id,
        type=asked.question.type,
        readout=asked.readout.name,
        keys=option_keys(asked.question),
        order_keys=tuple(order_keys),
        scores=tuple(pooled),
        expand=asked.readout.expand(asked.question),
        notes=asked.notes,
        wordings=wordings,
    )
