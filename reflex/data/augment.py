"""An item's ask as one concrete question: canonical for held-out splits, drawn for the training split.

All draws come from a generator seeded by the row's own id, so a row does not depend on its neighbours.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reflex.checks import check_share
from reflex.contract import Choice, Noul, Question, Score, option_keys
from reflex.contract.questions import NoulCriteria
from reflex.data.rows import Labels, Row, group_of
from reflex.data.sources.base import Ask, Item, OptionSet
from reflex.errors import ConfigError

ADJACENT: Mapping[str, frozenset[str]] = {
    "intent": frozenset({"intent", "topic"}),
    "topic": frozenset({"topic", "intent", "knowledge"}),
    "emotion": frozenset({"emotion", "sentiment", "safety"}),
    "sentiment": frozenset({"sentiment", "emotion", "quality", "safety"}),
    "safety": frozenset({"safety", "emotion", "sentiment", "quality"}),
    "nli": frozenset({"nli", "fact", "paraphrase"}),
    "fact": frozenset({"fact", "nli", "paraphrase", "knowledge", "quality"}),
    "paraphrase": frozenset({"paraphrase", "fact", "nli", "quality"}),
    "knowledge": frozenset({"knowledge", "topic", "fact"}),
    # A question and its answer: it may be invented, unsafe, or say what the question says.
    "quality": frozenset({"quality", "sentiment", "fact", "safety", "paraphrase"}),
}
"""Families whose states may still answer each other's questions: never donors for abstention."""


def adjacent(family: str) -> frozenset[str]:
    """The families in `ADJACENT` of `family`; of one that is not named there, itself."""
    return ADJACENT.get(family, frozenset({family}))


@dataclass
class AugmentConfig:
    """Probabilities, training split only. several: all questions of an item in one row instead of one.
    large_full: a large taxonomy keeps all options; else it keeps large_min to large_max, half of them the
    ones named most like the gold. abstain: the state is replaced by one of a family that cannot answer
    (reflex/data/augment.py, ADJACENT) and the target is uniform."""

    paraphrase: float = 0.7
    negate: float = 0.4
    subsample: float = 0.3
    shuffle: float = 0.5
    drop_descriptions: float = 0.2
    restate: float = 0.5
    several: float = 0.5
    abstain: float = 0.05
    large_full: float = 0.5
    large_min: int = 15
    large_max: int = 60

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("large_min", "large_max"):
                continue
            check_share(f"mixture.augment.{name}", value)
        if not 2 <= self.large_min <= self.large_max:
            raise ConfigError(
                f"mixture.augment.large_min={self.large_min}: use 2 <= large_min <= large_max"
            )


def canonical_row(item: Item, source: str, family: str, split: str, *, vary: bool = False) -> Row:
    """The item with the first wording of every question. `vary` changes the number of options only
    (the `fit` split: temperatures are wanted for every band of option counts)."""
    rng = random.Random(f"canonical:{item.id}")
    questions: dict[str, Question] = {}
    labels: Labels = {}
    for name, ask in item.asks.items():
        shown = dict(ask.sets[0]) if ask.sets else {}
        if vary and ask.kind == "choice" and len(shown) > 4 and rng.random() < 2 / 3:
            wanted = rng.choice((rng.randint(3, 8), rng.randint(9, 26)))
            shown = subsample(ask, shown, wanted, rng)
        questions[name], labels[name] = build(ask, ask.wordings[0], shown)
    return Row(item.id, item.states[0], questions, labels, source, family, split, _group(item))


def training_row(
    item: Item,
    row_id: str,
    source: str,
    family: str,
    config: AugmentConfig,
    donors: Sequence[Item] = (),
) -> Row:
    """One augmented row. `donors` are items whose states cannot answer this item's questions."""
    rng = random.Random(row_id)
    names = list(item.asks)
    if len(names) > 1 and rng.random() >= config.several:
        names = [rng.choice(names)]
    rng.shuffle(names)
    questions: dict[str, Question] = {}
    labels: Labels = {}
    for name in names:
        questions[name], labels[name] = _drawn(item.asks[name], config, rng)
    state = rng.choice(item.states) if rng.random() < config.restate else item.states[0]
    settled = all(can_abstain(item.asks[name]) for name in names)
    if donors and settled and rng.random() < config.abstain:
        state = rng.choice(donors).states[0]
        labels = {name: {key: 1 / len(label) for key in label} for name, label in labels.items()}
    return Row(row_id, state, questions, labels, source, family, "train", _group(item))


UNSETTLED = frozenset({"maybe", "oos", "neutral", "neither"})
"""Labels that already say "none of these" or "cannot be told": with one of them on offer a foreign state
has a right answer, and a uniform target would be wrong."""


def can_abstain(ask: Ask) -> bool:
    """Whether the right answer to `ask` over a foreign state is to be unsure."""
    return ask.abstains and not (ask.sets and UNSETTLED & set(ask.sets[0]))


def _group(item: Item) -> str:
    """What the bootstrap resamples: rows of one passage or article, in all sources that have it; else rows of one
    state (the row's own default)."""
    return group_of(item.group) if item.group else ""


def _drawn(
    ask: Ask, config: AugmentConfig, rng: random.Random
) -> tuple[Question, dict[str, float]]:
    paraphrased = rng.random() < config.paraphrase
    shown = dict(rng.choice(ask.sets) if paraphrased else ask.sets[0]) if ask.sets else {}
    negated = bool(ask.negated) and rng.random() < config.negate
    wordings = ask.negated if negated else ask.wordings
    wording = rng.choice(wordings) if paraphrased or negated else wordings[0]
    if ask.kind == "choice":
        if ask.large:
            if rng.random() >= config.large_full:
                wanted = rng.randint(config.large_min, config.large_max)
                shown = subsample(ask, shown, wanted, rng)
        elif len(shown) > 2 and rng.random() < config.subsample:
            shown = subsample(ask, shown, rng.randint(2, len(shown) - 1), rng)
        if rng.random() < config.shuffle:
            shuffled = list(shown.items())
            rng.shuffle(shuffled)
            shown = dict(shuffled)
        if rng.random() < config.drop_descriptions:
            shown = {label: (name, None) for label, (name, _) in shown.items()}
    elif ask.kind == "noul" and rng.random() < config.drop_descriptions:
        shown = {}
    return build(ask, wording, shown, negated=negated)


def subsample(ask: Ask, shown: OptionSet, wanted: int, rng: random.Random) -> dict:
    """At most `wanted` options with every possibly right one kept, in the order shown.

    Half of the others are those that share most words with the gold option's name.
    """
    gold = {label for label, p in ask.distribution(shown).items() if p > 0}
    if len(shown) <= wanted:
        return dict(shown)
    others = [label for label in shown if label not in gold]
    rng.shuffle(others)
    words = {word for label in gold for word in _words(shown[label][0])}
    near = sorted(others, key=lambda label: -len(words & _words(shown[label][0])))
    room = max(0, wanted - len(gold))
    taken = near[: room // 2]
    taken += [label for label in others if label not in taken][: room - len(taken)]
    kept = gold | set(taken)
    return {label: option for label, option in shown.items() if label in kept}


def _words(name: str) -> set[str]:
    return set(name.lower().replace("_", " ").split())


def build(
    ask: Ask, wording: str, shown: OptionSet, *, negated: bool = False
) -> tuple[Question, dict[str, float]]:
    """The question and its label distribution over the question's option keys."""
    question: Question
    if ask.kind == "noul":
        p = ask.distribution(("true", "false"))
        true, false = (shown[key][1] if shown else None for key in ("true", "false"))
        if negated:
            p = {"true": p["false"], "false": p["true"]}
            true, false = false, true
        criteria = NoulCriteria(true=true, false=false) if shown else None
        question = Noul(instructions=wording, criteria=criteria)
    elif ask.kind == "score":
        question = Score(instructions=wording, criteria=[text or "" for _, text in shown.values()])
        p = ask.distribution(shown)
    else:
        question = Choice(instructions=wording, criteria=dict(shown.values()))
        p = {shown[label][0]: value for label, value in ask.distribution(shown).items()}
    return question, {key: p[key] for key in option_keys(question)}
