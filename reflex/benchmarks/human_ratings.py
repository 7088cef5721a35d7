"""Human sentiment ratings: short texts of four domains, each rated −4…4 by 15 to 99 people.

The raters' own distribution is the label, for three questions about each text (how ratings become
labels, and which rows are dropped: docs/decisions/012-human-ratings-labels.md). Data: C.J. Hutto
and Eric Gilbert, VADER, ICWSM 2014; a member of the `vaderSentiment` sdist, MIT.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from reflex.assets import HUMAN_RATINGS, RegistryAsset
from reflex.benchmarks.base import Suite
from reflex.checks import check_choice, check_limit, check_names
from reflex.data.human_ratings import FILES, NAME, QUESTIONS, Item, families, labels_of
from reflex.data.rows import Row
from reflex.data.splits import HALVES

SPLITS = (*HALVES, "all")

NOTES = {
    "labels": "shares of raters. positive: rating above 0 (a neutral rating is a no); "
    "sentiment: below, at, above 0; rating: level = rating + 4",
    "dropped": "by family and reason; means_disagree: the two files of the family state different "
    "mean ratings for the text, so the raw ratings cannot be trusted to be the text's",
}


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
        check_limit("benchmark.per_family", self.per_family)
        check_limit("benchmark.limit", self.limit)
        check_choice("benchmark.split", self.split, SPLITS)
        check_names("benchmark.families", self.families, FILES)
        check_names("benchmark.questions", self.questions, QUESTIONS)

    def load(self) -> Suite:
        """Fetches the asset the first time. Raises AssetError or DataError."""
        return self.load_from(HUMAN_RATINGS)

    def load_from(self, asset: RegistryAsset) -> Suite:
        """`load` from another asset of the same shape (the tests have a tiny one)."""
        chosen: list[list[Row]] = []
        read: dict[str, Any] = {}
        for family in families(asset):
            if family.name not in self.families:
                continue
            wanted = list(HALVES) if self.split == "all" else [self.split]
            # One list per family and split, so that `limit` is balanced over both.
            chosen += [
                [
                    self._row(family.name, name, item)
                    for item in family.splits[name][: self.per_family]
                ]
                for name in wanted
            ]
            raters = [len(item.ratings) for items in family.splits.values() for item in items]
            read[family.name] = {
                "available": {name: len(items) for name, items in family.splits.items()},
                "dropped": dict(sorted(family.dropped.items())),
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
