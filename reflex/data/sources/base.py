"""What a source is: raw rows from a file or a hub, and how one becomes questions.

A raw row becomes an `Item`: one state and one or more `Ask`s about it. An ask carries every wording it may be
put in; held-out splits always use the first (canonical) wording, the training split draws
(reflex/data/augment.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflex.data.jsonl import canonical, json_lines
from reflex.data.root import source_root
from reflex.data.rows import State
from reflex.data.splits import split_of, stable_fraction
from reflex.errors import DataError, MissingDataError, brief

log = logging.getLogger(__name__)

SALT = "reflex-split-v1"
FRACTIONS = {"train": 0.85, "fit": 0.08, "report": 0.07}
OFFICIAL_TRAIN = {"train": 0.92, "fit": 0.08}
HUB_ROWS = 20_000
"""About so many rows of a hub's set are read, drawn by hash: some hold half a million."""

USES = ("any", "non-commercial", "unstated")
"""What a licence allows: any use; non-commercial, academic or research use only; nothing is stated.
What is "published for research" counts as the second."""

Option = tuple[str, str | None]
"""Name and description an option is shown with."""
OptionSet = Mapping[str, Option]
"""Label → how it is shown. For `score`, labels are "0".."n-1" and only the description is shown."""


@dataclass(frozen=True)
class Ask:
    """One question in all its wordings.

    kind: choice, noul or score. wordings[0] and sets[0] are canonical; every set has the same labels.
    label: the gold label, or a distribution over labels. noul labels are "true" and "false"; `negated`
    wordings ask for the opposite (then sets are shown with the descriptions swapped). large: a taxonomy.
    abstains: over a state it was not made for it has no answer; False where any text answers it ("is it
    rude?", "what does the writer feel?"), so that it never becomes an abstention row.
    """

    kind: str
    wordings: tuple[str, ...]
    label: str | Mapping[str, float]
    sets: tuple[OptionSet, ...] = ()
    negated: tuple[str, ...] = ()
    large: bool = False
    abstains: bool = True

    def distribution(self, labels: Iterable[str]) -> dict[str, float]:
        if isinstance(self.label, str):
            return {label: float(label == self.label) for label in labels}
        total = sum(self.label.values())
        return {label: self.label.get(label, 0.0) / total for label in labels}


@dataclass(frozen=True)
class Item:
    """A state (states[0] is canonical, the others say the same in another shape) and its questions."""

    id: str
    states: tuple[State, ...]
    asks: Mapping[str, Ask]
    group: str = ""


@dataclass(frozen=True)
class HubSet:
    """The same rows on the Hugging Face hub. `rename` maps its fields to those of the local files; a class
    label comes as its name. role: as in `Source.files` (default: by the name of the split). revision: a
    branch; a set that is kept as a script has its rows in `refs/convert/parquet`."""

    path: str
    config: str | None = None
    split: str = "train"
    rename: Mapping[str, str] = field(default_factory=dict)
    role: str | None = None
    revision: str | None = None


class Reader:
    """Raw rows below `root`; `place` is where the last one stands, for whoever finds it wrong."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = str(root)

    def rows(self, name: str) -> Iterator[Mapping[str, Any]]:
        path = self.root / name
        for number, raw in json_lines(path):
            self.place = f"{path}:{number}"
            yield raw

    @contextmanager
    def naming(self, source: str) -> Iterator[None]:
        """A row without a field, or with a value that cannot be used, is a DataError with source and place."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise DataError(
                f"source {source}: {self.place}: not in the expected form ({error!r}); mend or drop the row"
            ) from None


@dataclass(frozen=True)
class Source:
    """files: file name below `train/` (or `mmlu/…`) → role: `hash` (split by hash), `train` (an official
    train file: train and fit by hash), `fit`, `report`. item: one raw row → Item, or None to leave it out.
    licence: as the publisher states it; use: what it allows (see USES).
    """

    name: str
    family: str
    item: Callable[[Mapping[str, Any]], Item | None]
    files: Mapping[str, str] = field(default_factory=dict)
    hub: tuple[HubSet, ...] = ()
    licence: str = ""
    use: str = "any"
    texts: str = ""
    """Name that sources made of the same texts share: one text is then in the same split in all of them."""
    derive: (
        Callable[[Callable[[str], Iterator[Mapping[str, Any]]]], Iterator[Mapping[str, Any]]] | None
    ) = None
    """Instead of a file of its own: raw rows made from other files (given a reader of them)."""

    def items(self, root: Path | None = None) -> list[tuple[str, Item]]:
        """(split, item) of every usable row, in file order; item ids start with the source's name.

        Raises DataError naming what is missing, or the row that is not as the source expects it.
        """
        reader = Reader(root or source_root())
        found = []
        for role, raw in self._raw(reader):
            with reader.naming(self.name):
                item = self.item(raw)
            if item is None:
                continue
            key = item.group or canonical(item.states[0])
            named = Item(f"{self.name}/{item.id}", item.states, item.asks, item.group)
            found.append((split_for(role, f"{self.texts or self.name}|{key}"), named))
        if not found:
            raise DataError(f"source {self.name}: no usable rows below {reader.root}")
        return found

    def _raw(self, reader: Reader) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if self.derive is not None:
            with reader.naming(self.name):
                for raw in self.derive(reader.rows):
                    yield raw.get("role", "hash"), raw
            return
        local = {name: role for name, role in self.files.items() if (reader.root / name).is_file()}
        if local:
            for name, role in local.items():
                for raw in reader.rows(name):
                    yield role, raw
            return
        yield from self._from_hub(reader)

    def _from_hub(self, reader: Reader) -> Iterator[tuple[str, Mapping[str, Any]]]:
        root = reader.root
        if not self.hub:
            names = ", ".join(self.files)
            raise MissingDataError(
                f"source {self.name}: none of {names} below {root}; set REFLEX_DATA"
            )
        try:
            from datasets import load_dataset  # type: ignore[import-not-found]
        except ImportError:
            raise MissingDataError(
                f"source {self.name}: no file below {root}; set REFLEX_DATA, or install "
                f"reflex-systemone[hub] to read {self.hub[0].path} from the hub"
            ) from None
        for each in self.hub:
            role = each.role or {"test": "report", "validation": "fit"}.get(each.split, "hash")
            try:
                rows = load_dataset(
                    each.path, each.config, split=each.split, revision=each.revision
                )
            except (OSError, RuntimeError, ValueError) as error:
                raise MissingDataError(
                    f"source {self.name}: no file below {root}, and {each.path} cannot be read from the hub: "
                    f"{brief(error)}"
                ) from None
            name, share = f"{each.path}/{each.split}", HUB_ROWS / max(1, len(rows))
            kept = [n for n in range(len(rows)) if stable_fraction(f"{name}/{n}", SALT) < share]
            # Class labels (or lists of them) are stored as places in a list of names.
            features = {key: getattr(of, "feature", of) for key, of in rows.features.items()}
            classes = {key: of.names for key, of in features.items() if hasattr(of, "names")}
            for number, raw in zip(kept, rows.select(kept), strict=True):
                reader.place = f"{name}, row {number}"
                named = {
                    each.rename.get(key, key): _named(value, classes[key])
                    if key in classes
                    else value
                    for key, value in raw.items()
                }
                yield role, {"id": f"{each.split}-{number}", **named}


def _named(value: Any, names: Sequence[str]) -> Any:
    """A stored class label (-1 or None: not labelled) or a list of them as names."""
    if isinstance(value, Sequence):
        return [_named(each, names) for each in value]
    return None if value is None or value < 0 else names[value]


def split_for(role: str, key: str) -> str:
    if role == "hash":
        return split_of(key, SALT, FRACTIONS)
    if role == "train":
        return split_of(key, SALT, OFFICIAL_TRAIN)
    return role


# -- building blocks of source files ---------------------------------------------------------------


def plain(labels: Sequence[str]) -> dict[str, Option]:
    """Labels shown under their own name, undescribed."""
    return {label: (label, None) for label in labels}


def humanised(labels: Sequence[str]) -> dict[str, Option]:
    """`card_arrival` shown as `card arrival`."""
    return {label: (label.replace("_", " ").replace("?", ""), None) for label in labels}


WHICH_ANSWER = (
    "Which answer is correct?",
    "Choose the right answer to the question.",
    "Answer the question.",
    "Which of these options answers the question correctly?",
    "Pick the best answer.",
)


def multiple_choice(
    raw: Mapping[str, Any],
    *,
    extra: Mapping[str, Any] | None = None,
) -> Item | None:
    """A question with choices: the choice itself, and "is the proposed answer correct?" on the side.

    `label` is the place of the answer. A hub's row may have choices as {text, label} and its answerKey instead.
    """
    if isinstance(raw["choices"], Mapping):
        texts = raw["choices"]["text"]
        place = list(raw["choices"]["label"]).index(raw["answerKey"])
    else:
        texts, place = raw["choices"], raw["label"]
    choices = [str(choice).strip() for choice in texts]
    if len(set(choices)) != len(choices) or not all(choices) or len(choices) < 2:
        return None
    gold = choices[int(place)]
    question = raw["question"]
    state = {**(extra or {}), "question": question}
    asks = {"answer": Ask("choice", WHICH_ANSWER, gold, (plain(choices),))}
    # One proposal per item, right or wrong by a hash of its id: no generator, no state.
    wrong = [choice for choice in choices if choice != gold]
    pick = split_of(str(raw["id"]), "proposal", {"right": 0.5, "wrong": 0.5})
    place = int(
        split_of(str(raw["id"]), "which", {str(i): 1 / len(wrong) for i in range(len(wrong))})
    )
    proposed = gold if pick == "right" else wrong[place]
    asks["check"] = Ask(
        "noul",
        (
            f"Is the proposed answer correct? Proposed answer: {proposed}",
            f'Is "{proposed}" the correct answer to the question?',
            f"A student answered: {proposed}. Is the student right?",
        ),
        "true" if proposed == gold else "false",
        negated=(
            f"Is the proposed answer wrong? Proposed answer: {proposed}",
            f"A student answered: {proposed}. Is the student mistaken?",
        ),
    )
    return Item(str(raw["id"]), (state, question), asks)
