"""Human sentiment ratings: short texts of four domains, each rated −4…4 by 15 to 99 people.

The raters' own distribution is the label, for three questions about each text (how ratings become
labels, and which rows are dropped: docs/decisions/012-human-ratings-labels.md). Data: C.J. Hutto
and Eric Gilbert, VADER, ICWSM 2014; a member of the `vaderSentiment` sdist, MIT.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import fsum
from typing import Any

from reflex.assets import HUMAN_RATINGS, RegistryAsset, fetch, read_tar
from reflex.benchmarks.base import Suite, check_count
from reflex.contract import Question, parse_question
from reflex.data.rows import Row
from reflex.data.splits import HALVES, hash_order, split_of
from reflex.errors import ConfigError, DataError

NAME = "human_ratings"
FILES = {
    "tweets": "tweets",
    "movies": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "news": "nytEditorialSnippets",
}
SPLITS = (*HALVES, "all")
_PARTS = ("GroundTruth", "anonDataRatings")

NOTES = {
    "labels": "shares of raters. positive: rating above 0 (a neutral rating is a no); "
    "sentiment: below, at, above 0; rating: level = rating + 4",
    "dropped": "by family and reason; means_disagree: the two files of the family state different "
    "mean ratings for the text, so the raw ratings cannot be trusted to be the text's",
}

QUESTIONS: dict[str, Question] = {
    "positive": parse_question(
        {
            "type": "noul",
            "instructions": "Is the sentiment of this text positive?",
            "criteria": {
                "true": "The sentiment is positive.",
                "false": "The sentiment is neutral or negative.",
            },
        }
    ),
    "sentiment": parse_question(
        {
            "type": "choice",
            "instructions": "Which sentiment does this text express?",
            "criteria": {
                "negative": "It criticises, complains, or reports something as bad.",
                "neutral": "It states facts, or is neither positive nor negative.",
                "positive": "It praises, enjoys, or reports something as good.",
            },
        }
    ),
    "rating": parse_question(
        {
            "type": "score",
            "instructions": "How negative or positive is the sentiment of this text?",
            "criteria": [
                "extremely negative",
                "very negative",
                "moderately negative",
                "slightly negative",
                "neutral",
                "slightly positive",
                "moderately positive",
                "very positive",
                "extremely positive",
            ],
        }
    ),
}
"""One question per type; the same words for every family, so that families compare."""


@dataclass
class HumanRatings:
    """`per_family` rows of each family and split, in hash order (null: all of them).

    `split` is `report`, `fit` or `all`. `limit` cuts the result to N rows, balanced over families and splits.
    """

    _target_: str = "reflex.benchmarks.human_ratings.HumanRatings"
    name: str = NAME
    per_family: int | None = 50
    split: str = "report"
    families: list[str] = field(default_factory=lambda: list(FILES))
    questions: list[str] = field(default_factory=lambda: list(QUESTIONS))
    limit: int | None = None

    def __post_init__(self) -> None:
        check_count("benchmark.per_family", self.per_family)
        check_count("benchmark.limit", self.limit)
        _check_names("benchmark.split", [self.split], SPLITS)
        _check_names("benchmark.families", self.families, FILES)
        _check_names("benchmark.questions", self.questions, QUESTIONS)

    def load(self) -> Suite:
        """Fetches the asset the first time. Raises AssetError or DataError."""
        return self.load_from(HUMAN_RATINGS)

    def load_from(self, asset: RegistryAsset) -> Suite:
        """`load` from another asset of the same shape (the tests have a tiny one)."""
        path = fetch(asset)
        seen: set[str] = set()
        chosen: list[list[Row]] = []
        read: dict[str, Any] = {}
        for family, stem in FILES.items():  # all of them: repeats are found across families
            members = [f"hutto_ICWSM_2014/{stem}_{part}.txt" for part in _PARTS]
            texts, ratings = read_tar(path, members).values()
            items, dropped = join(texts, ratings, seen)
            if family not in self.families:
                continue
            if not items:
                raise DataError(f"{path}: no usable rows of {family}, dropped {dict(dropped)}")
            splits = _split(family, items)
            wanted = list(HALVES) if self.split == "all" else [self.split]
            # One list per family and split, so that `limit` is balanced over both.
            chosen += [
                [self._row(family, name, item) for item in splits[name][: self.per_family]]
                for name in wanted
            ]
            raters = [len(item.ratings) for item in items]
            read[family] = {
                "available": {name: len(members) for name, members in splits.items()},
                "dropped": dict(sorted(dropped.items())),
                "raters": [min(raters), max(raters)],
            }
        rows = [row for rank in zip_longest(*chosen) for row in rank if row is not None]
        rows = rows[: self.limit]
        words: Counter[str] = Counter()
        for row in rows:
            words[row.family] += len(str(row.state).split())
        return Suite(
            name=self.name,
            rows=rows,
            facts={
                "data_sha256": asset.sha256,
                "asset": f"{asset.requirement}:{asset.member}",
                "rows": dict(Counter(row.family for row in rows)),
                "words": dict(words),
                "families": read,
                "licences": {NAME: asset.licence},
                "notes": NOTES,
            },
        )

    def _row(self, family: str, split: str, item: Item) -> Row:
        labels = labels_of(item.ratings)
        return Row(
            id=f"{NAME}/{family}/{item.id}",
            state=item.text,
            questions={name: QUESTIONS[name] for name in self.questions},
            labels={name: labels[name] for name in self.questions},
            source=NAME,
            family=family,
            split=split,
            group=f"{family}/{item.article}",
        )


def _split(family: str, items: list[Item]) -> dict[str, list[Item]]:
    """Items of each split in hash order; the sentences of one article stay together."""
    splits: dict[str, list[Item]] = {name: [] for name in HALVES}
    for item in hash_order(items, lambda item: f"{family}/{item.id}", NAME):
        splits[split_of(f"{family}/{item.article}", NAME)].append(item)
    return splits


def _check_names(key: str, given: Sequence[str], known: Iterable[str]) -> None:
    known = list(known)
    if not given or len(set(given)) != len(given):
        raise ConfigError(f"{key}={list(given)} must name each of its entries once")
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(f"{key}: {unknown[0]!r} is unknown; choose from {', '.join(known)}")


def labels_of(ratings: Sequence[int]) -> dict[str, dict[str, float]]:
    """Raters' shares as the labels of `QUESTIONS`.

    They agree exactly: the share above 0 is the same float in `positive` and in `sentiment`.
    """
    n = len(ratings)
    count = Counter(ratings)
    above = sum(number for rating, number in count.items() if rating > 0)
    below = sum(number for rating, number in count.items() if rating < 0)
    return {
        "positive": {"true": above / n, "false": (n - above) / n},
        "sentiment": {"negative": below / n, "neutral": count[0] / n, "positive": above / n},
        "rating": {str(level): count[level - 4] / n for level in range(9)},
    }


@dataclass(frozen=True)
class Item:
    """One text with its raw ratings; `article` is what its sentences share (itself if nothing)."""

    id: str
    article: str
    text: str
    ratings: tuple[int, ...]


def join(texts: bytes, ratings: bytes, seen: set[str]) -> tuple[list[Item], Counter[str]]:
    """Join the two files of a family on the id; what cannot be trusted is counted by reason.

    `seen` holds the folded texts met so far and is extended: a repeat would leak across splits.
    """
    dropped: Counter[str] = Counter()
    means: dict[str, tuple[float, tuple[int, ...]]] = {}
    for fields in _lines(ratings, 4, dropped):
        parsed = _ratings(fields[3])
        if parsed is None:
            dropped["bad_ratings"] += 1
        else:
            means[fields[0]] = (fsum(parsed) / len(parsed), parsed)
    items: list[Item] = []
    known: set[str] = set()
    for identity, stated, raw in _lines(texts, 3, dropped):
        known.add(identity)
        text = html.unescape(raw).strip()
        folded = " ".join(text.casefold().split())
        if identity not in means:
            dropped["text_without_ratings"] += 1
        elif not text:
            dropped["empty_text"] += 1
        elif not _agrees(stated, means[identity][0]):
            dropped["means_disagree"] += 1
        elif folded in seen:
            dropped["repeated_text"] += 1
        else:
            seen.add(folded)
            items.append(Item(identity, identity.split("_")[0], text, means[identity][1]))
    dropped["ratings_without_text"] += len(means.keys() - known)
    return items, +dropped


def _lines(data: bytes, columns: int, dropped: Counter[str]) -> Iterable[list[str]]:
    """Tab-separated lines with unique first fields; UTF-8, else Windows-1252 line by line."""
    ids: set[str] = set()
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = line.rstrip(b"\r")
        if not line.strip():
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("cp1252", "replace")
        fields = text.split("\t", columns - 1)
        if len(fields) != columns or "\ufffd" in text:
            dropped["unreadable_line"] += 1
        elif fields[0] in ids:
            dropped["repeated_id"] += 1
        else:
            ids.add(fields[0])
            yield fields


def _ratings(field: str) -> tuple[int, ...] | None:
    """The raw ratings, or None unless they are a non-empty list of whole numbers in −4…4."""
    try:
        values = json.loads(field)
    except json.JSONDecodeError:
        return None
    good = isinstance(values, list) and values and all(v in range(-4, 5) for v in values)
    return tuple(int(value) for value in values) if good else None


def _agrees(stated: str, mean: float) -> bool:
    try:
        return abs(float(stated) - mean) < 0.01
    except ValueError:
        return False
