"""What every readout provides, and what the model makes of it: `OptionScores`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from reflex.contract import TYPES, Question, option_keys
from reflex.errors import ConfigError, RequestError
from reflex.prompts.pieces import Piece
from reflex.prompts.prompt import Branch

if TYPE_CHECKING:
    import torch

    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig
    from reflex.forward.tree import Segment


@dataclass(frozen=True)
class OptionScores:
    """Scores of one question's options, per order, before temperature.

    keys: option keys in the caller's order. order_keys[o][i] is the key behind scores[o][i] (float32, with
    gradient in training). expand: None, or a (labels × keys) matrix that turns label probabilities into
    option probabilities (the rating readout reads nine digits for two outcomes). wordings: how many
    wordings the orders divide into, one after another.
    """

    question_id: str
    type: str
    readout: str
    keys: tuple[str, ...]
    order_keys: tuple[tuple[str, ...], ...]
    scores: tuple[torch.Tensor, ...]
    expand: tuple[tuple[float, ...], ...] | None = None
    notes: dict[str, Any] | None = None
    wordings: int = 1


class Readout:
    """Turns a question into branches, and the hidden states at their reads into scores.

    `style` may be exchanged for another one on a copy (wordings); all else is shared by the copies.
    """

    name = ""
    labels_at_once = 0
    """Options that one list can hold with a single-token label each; 0 for a readout without labels."""

    def __init__(self, config: Any, backbone: Backbone, style: Any, forward: ForwardConfig) -> None:
        self.config = config
        self.backbone = backbone
        self.style = style
        self.forward = forward
        """How the model runs its trees: the limits of whatever else a readout asks the backbone."""
        self.template = backbone.tokens.template
        self.prefix = style.label_prefix(self.template)
        """What stands between the prompt and a label: nothing after a chat turn, a space after `Answer:`."""

    def check(self, built: Mapping[str, Readout]) -> None:
        """Raise ConfigError where this readout cannot work beside those the model has built."""

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> Iterable[Branch]:
        """The branches to read, grouped by order. Raises ReadoutError for a question it cannot score.

        Where there can be many they are rendered one after another: whoever reads them may stop.
        """
        raise NotImplementedError

    def segments(self, branch: Branch, first: int) -> list[Segment]:
        """The branch as tree segments (`first`: index of its first one). Here: its text, read at the end."""
        from reflex.forward.tree import Segment

        ids = self.backbone.tokens.encode(branch.text)
        return [Segment(ids, -1, (len(ids) - 1,))]

    apart_read = 0
    """Tokens read so far of what `apart` names."""

    def apart(self, branch: Branch) -> tuple[tuple[int, ...], ...]:
        """Token sequences that `scores` has the backbone read beside the branch's segments: with gradients each
        distinct one once per call, else once as long as it is kept. Here: none."""
        return ()

    def option_ids(self, branch: Branch) -> tuple[tuple[int, ...], ...]:
        """Token ids of every option's own text, by place. Raises RequestError for an option without any."""
        found = tuple(map(self.backbone.tokens.encode, branch.options))
        for key, ids in zip(branch.keys, found, strict=True):
            require_text(branch.question_id, key, ids)
        return found

    def scores(
        self, branches: Sequence[Branch], hidden: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Per branch, float32 scores over `branch.keys` from its reads (reads × hidden)."""
        raise NotImplementedError

    def expand(self, question: Question) -> tuple[tuple[float, ...], ...] | None:
        """See `OptionScores.expand`. Here: labels are options."""
        return None


class CanonicalReadout(Readout):
    """Base of the readouts with a trained head that scores options which are texts of their own.

    One branch, whose options are sorted by text: whatever order the caller lists them in, the same tokens
    reach the model, and further orders would ask the same again. Subclasses set `head`.
    """

    end = ""
    """Text behind every option."""

    def branches(
        self, question_id: str, question: Question, orders: Sequence[tuple[int, ...]]
    ) -> list[Branch]:
        named = sorted(zip(self.style.option_texts(question), option_keys(question), strict=True))
        for text, key in named:
            require_text(question_id, key, text)
        branch = Branch(
            question_id=question_id,
            order=0,
            page=0,
            text=self.style.branch(self.template, question, (), "pointer_ask"),
            keys=tuple(key for _, key in named),
            options=tuple((Piece(text + self.end),) for text, _ in named),
        )
        return [branch]


def require_text(question_id: str, key: str, own: Sequence[Any]) -> None:
    """Raise RequestError for the option `key` where `own`, its text or the ids of it, is empty: what stands
    around it would be scored in its place."""
    if not own:
        loc = ("body", "questions", question_id, "criteria")
        raise RequestError(f"option {key!r} has no text that could be scored; give it a name", loc)


def used_readouts(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the readouts that a resolved `readout` group puts to use, a router's parts included."""
    names = {options[kind] for kind in TYPES}
    if "auto" in names:
        names |= {options["auto"]["labels"], head_of(options)}
    return tuple(sorted(names))


def head_weights(options: Mapping[str, Any]) -> dict[str, str]:
    """The file of trained weights of each of them that has one."""
    named = {name: options.get(name) or {} for name in used_readouts(options)}
    return {name: each["weights"] for name, each in named.items() if each.get("weights")}


def used_options(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The own options of each of them, by name; a router's say which head it has."""
    found = {name: dict(options.get(name) or {}) for name in used_readouts(options)}
    if "auto" in found:
        found["auto"]["head"] = head_of(options)
    return found


def head_of(options: Mapping[str, Any]) -> str:
    """The readout that a router leaves long option lists to: `auto.head`, else the one whose weights the run
    has, else `pointer` (yet to be trained). Raises ConfigError where two have weights."""
    if options["auto"]["head"] is not None:
        return str(options["auto"]["head"])
    own = {name: each for name, each in options.items() if isinstance(each, Mapping)}
    trained = sorted(name for name, each in own.items() if each.get("weights") is not None)
    if len(trained) > 1:
        raise ConfigError(
            f"readout.auto.head: {' and '.join(trained)} have weights; name the one to use"
        )
    return trained[0] if trained else "pointer"


def settled(readouts: Any) -> Any:
    """The `readout` group as an object whose router names its head. Raises ConfigError as `head_of`."""
    if "auto" not in {getattr(readouts, kind) for kind in TYPES}:
        return readouts
    return replace(readouts, auto=replace(readouts.auto, head=head_of(asdict(readouts))))
