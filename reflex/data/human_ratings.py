"""The human_ratings texts as they lie in their asset (joined, checked, split), and what is asked of them.

How ratings become labels, and which rows are dropped: docs/decisions/012-human-ratings-labels.md.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from reflex.assets import RegistryAsset, fetch, read_tar
from reflex.contract import Question, parse_question
from reflex.data.splits import HALVES, hash_order, split_of
from reflex.errors import DataError

NAME = "human_ratings"
FILES = {
    "tweets": "tweets",
    "movies": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "news": "nytEditorialSnippets",
}
_PARTS = ("GroundTruth", "anonDataRatings")

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


@dataclass(frozen=True)
class Family:
    """splits: the texts of each half in hash order. dropped: how many were left out, by reason."""

    name: str
    splits: dict[str, list[Item]]
    dropped: Counter[str]


def families(asset: RegistryAsset) -> Iterator[Family]:
    """All four families; fetches the asset the first time. Raises AssetError, or DataError for one without rows."""
    path = fetch(asset)
    seen: set[str] = set()  # repeats are found across families
    for family, stem in FILES.items():
        members = [f"hutto_ICWSM_2014/{stem}_{part}.txt" for part in _PARTS]
        texts, ratings = read_tar(path, members).values()
        items, dropped = join(texts, ratings, seen)
        if not items:
            raise DataError(f"{path}: no usable rows of {family}, dropped {dict(dropped)}")
        yield Family(family, _splits(family, items), dropped)


def _splits(family: str, items: list[Item]) -> dict[str, list[Item]]:
    """Items of each split in hash order; the sentences of one article stay together."""
    splits: dict[str, list[Item]] = {name: [] for name in HALVES}
    for item in hash_order(items, lambda item: f"{family}/{item.id}", NAME):
        splits[split_of(f"{family}/{item.article}", NAME)].append(item)
    return splits


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
