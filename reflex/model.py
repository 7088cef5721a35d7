"""`DecisionModel`: requests in, option scores out. The one forward of the project.

Prompts, forward and readouts meet here and nowhere else; training, evaluation, calibration and serving all
call `DecisionModel.forward`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import accumulate, pairwise, takewhile
from typing import Any

import torch

from reflex.backbones.backbone import Backbone
from reflex.contract import TYPES, Question, Request, option_keys
from reflex.errors import ConfigError, ContextLengthError
from reflex.forward.config import ForwardConfig
from reflex.forward.engine import Forward
from reflex.forward.tree import Segment, Tree
from reflex.prepared import Asked, Prepared
from reflex.prompts.orders import OrdersConfig, check_orders, option_orders
from reflex.prompts.prompt import Branch
from reflex.prompts.wording import variants
from reflex.readouts.base import OptionScores, Readout, settled

__all__ = ["DecisionModel", "ModelOutput", "Prepared"]


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
        readouts = settled(readouts)
        names = {kind: getattr(readouts, kind) for kind in TYPES}
        built = {
            name: _readout(readouts, name, backbone, style, forward)
            for name in sorted({*names.values()})
        }
        for readout in list(built.values()):
            for name in getattr(readout, "parts", ()):  # what a router chooses from
                if name not in built:
                    built[name] = _readout(readouts, name, backbone, style, forward)
        for readout in built.values():
            readout.check(built)
        self.built = built
        self.readouts = {kind: built[name] for kind, name in names.items()}
        styles = variants(style, backbone.tokens.template)
        first, second = (self._prefix(state) for state in ("a", "0"))
        self.head = first[: _common(first, second)]
        """Tokens that every prefix begins with: the prompt's own words before the state."""
        # One renderer per wording: the same readout (and head) that writes with other words.
        self.renderers = _renderers(built, styles)
        self.others: dict[str, tuple[Any, dict[str, tuple[Readout, ...]]]] = {}
        """Style and renderers of layouts beside the configured one, once a row was prepared in them."""
        # Trained parts of readouts (float32), so that parameters() and state_dict() see them.
        heads = {name: getattr(readout, "head", None) for name, readout in built.items()}
        self.heads = torch.nn.ModuleDict({k: v for k, v in heads.items() if v is not None})

    # -- requests to trees ---------------------------------------------------------------------

    def prepare(
        self, request: Request, layout: str | None = None, max_tokens: int | None = None
    ) -> Prepared:
        """Render and tokenise a request, in its own layout or another.

        Raises PromptError or ReadoutError, and ContextLengthError as soon as the branches read so far have more
        than `max_tokens`: a few bytes can ask for more branches than memory holds.
        """
        style, renderers = self._in_layout(layout or self.style.layout)
        state: tuple[int, ...] | None = None
        if style.schema_first:
            tokens = self.backbone.tokens
            state = tokens.encode(style.state_branch(tokens.template, request.state))
        segments: list[Segment] = []
        trees: list[Tree] = []
        asked = []
        apart: dict[tuple[int, ...], None] = {}
        reads = total = 0
        for question_id, question in request.questions.items():
            readout, notes = self.route(question)
            orders = option_orders(self.orders, question, request.permutations)
            branches: list[Branch] = []
            spans = []
            before = total
            for branch in _branches(renderers[readout.name], question_id, question, orders):
                branches.append(branch)
                own = readout.segments(branch, 0 if state else len(segments))
                if state is None:
                    segments += own
                    total += sum(len(segment.ids) for segment in own)
                else:
                    trees.append(self._over_schema(branch, own, state))
                    total += trees[-1].unique_tokens
                beside = dict.fromkeys(ids for ids in readout.apart(branch) if ids not in apart)
                apart |= beside
                total += sum(map(len, beside))
                if max_tokens is not None and total > max_tokens:
                    raise ContextLengthError(f"the questions are longer than {max_tokens} tokens")
                taken = sum(len(segment.reads) for segment in own)
                spans.append((reads, reads + taken))
                reads += taken
            size = total - before
            asked.append(
                Asked(question_id, question, readout, tuple(branches), tuple(spans), size, notes)
            )
        if state is not None:
            return Prepared(tuple(trees), tuple(asked), 0, tuple(apart))
        tree = self._over(self._prefix(request.state), segments)
        return Prepared((tree,), tuple(asked), len(tree.prefix), tuple(apart))

    def _over(self, prefix: tuple[int, ...], segments: Sequence[Segment]) -> Tree:
        # At least one token of the prefix stays: a state is more than the prompt's own words.
        head = min(_common(prefix, self.head), len(prefix) - 1)
        return Tree(prefix, tuple(segments), max(0, head))

    def _over_schema(self, branch: Branch, own: Sequence[Segment], state: tuple[int, ...]) -> Tree:
        """The state below one question: what would be read at the question's end is read at the state's."""
        (question, *options), end = own, len(state) - 1
        if question.reads != (len(question.ids) - 1,):
            raise ConfigError(
                f"prompt.layout=schema_first: not with this readout ({branch.labels})"
            )
        prefix = self.backbone.tokens.encode(branch.text, start=True)
        return self._over(prefix, [Segment(state, -1, (end,)), *options])

    def _in_layout(self, layout: str) -> tuple[Any, dict[str, tuple[Readout, ...]]]:
        if layout == self.style.layout:
            return self.style, self.renderers
        if layout not in self.others:
            style = replace(self.style, layout=layout)
            styles = variants(style, self.backbone.tokens.template)
            self.others[layout] = style, _renderers(self.built, styles)
        return self.others[layout]

    def _prefix(self, state: Any) -> tuple[int, ...]:
        tokens = self.backbone.tokens
        return tokens.encode(self.style.prefix(tokens.template, state), start=True)

    def route(self, question: Question) -> tuple[Readout, dict[str, Any] | None]:
        """The readout that scores `question`, and what a router says about its choice."""
        readout = self.readouts[question.type]
        route = getattr(readout, "route", None)
        if route is None:
            return readout, None
        name, why = route(question, self.built)
        return self.built[name], {"x_readout": name, "x_route": why}

    # -- the one forward -----------------------------------------------------------------------

    def forward(self, requests: Sequence[Request | Prepared]) -> ModelOutput:
        """Option scores of every question of every request, in the order given.

        Scores are float32 on the backbone's device and carry gradients where the backbone or a head
        requires them.
        """
        compiled = [r if isinstance(r, Prepared) else self.prepare(r) for r in requests]
        result = self.engine.run([tree for item in compiled for tree in item.trees])
        ends = [*accumulate((len(item.trees) for item in compiled), initial=0)]
        own_trees = [slice(start, end) for start, end in pairwise(ends)]
        states = [_joined(result.hidden[own]) for own in own_trees]
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
                hidden += [states[i][first:last] for first, last in asked.spans]
            readout = compiled[places[0][0]].asked[places[0][1]].readout
            scores = iter(readout.scores(branches, hidden))
            for i, j in places:
                asked = compiled[i].asked[j]
                found = [next(scores) for _ in asked.branches]
                scored[i, j] = _pool(asked, found, len(self.renderers[asked.readout.name]))
        return ModelOutput(
            scores=[
                {asked.question_id: scored[i, j] for j, asked in enumerate(item.asked)}
                for i, item in enumerate(compiled)
            ],
            state_tokens=[item.state_tokens for item in compiled],
            question_tokens=[
                {asked.question_id: asked.tokens for asked in item.asked} for item in compiled
            ],
            cache_hits=[all(result.cache_hits[own]) for own in own_trees],
            strategies=result.strategies,
        )


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many of their first tokens are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _readout(
    config: Any, name: str, backbone: Backbone, style: Any, forward: ForwardConfig
) -> Readout:
    own = getattr(config, name, None)
    if own is None:
        raise ConfigError(f"readout={name}: no such readout in reflex/readouts/")
    module = import_module(f"reflex.readouts.{name}")
    readout: Readout = module.Readout(own, backbone, style, forward)
    return readout


def _renderers(built: dict[str, Readout], styles: Sequence[Any]) -> dict[str, tuple[Readout, ...]]:
    for readout in built.values():
        if (
            styles[0].schema_first
            and getattr(getattr(readout, "config", None), "score", "") == "prior"
        ):
            raise ConfigError(
                "prompt.layout=schema_first: not with readout.continuation.score=prior, which asks the same "
                "question over a state that says nothing; use mean or sum"
            )
    return {
        name: tuple(_restyled(readout, each) for each in styles) for name, readout in built.items()
    }


def _branches(
    renderers: Sequence[Readout],
    question_id: str,
    question: Question,
    orders: Sequence[tuple[int, ...]],
) -> Iterator[Branch]:
    """Branches of every wording; wording w's orders follow those of wording w − 1."""
    following = 0
    for renderer in renderers:
        before = following
        for branch in renderer.branches(question_id, question, orders):
            following = before + branch.order + 1
            yield replace(branch, order=before + branch.order) if before else branch


def _joined(hidden: Sequence[torch.Tensor]) -> torch.Tensor:
    return hidden[0] if len(hidden) == 1 else torch.cat(list(hidden))


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
