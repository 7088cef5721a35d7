"""A mixture: how many rows of each source the training split holds, and the rows themselves.

Items are split by hash before anything is mixed. A source's items are drawn in hash order, again and again
when more rows are wanted than it has; every row's wording is drawn from its own id. Nothing here uses a
shared generator, so the same config gives the same rows everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reflex.checks import (
    check_above_zero,
    check_choice,
    check_count,
    check_not_negative,
    check_share,
)
from reflex.contract import TYPES
from reflex.data.augment import AugmentConfig, adjacent, canonical_row, training_row
from reflex.data.contamination import assert_clean
from reflex.data.coverage import check_coverage
from reflex.data.guard import overlapping_ids
from reflex.data.jsonl import canonical
from reflex.data.overlap import normalised_texts
from reflex.data.rows import Row
from reflex.data.sources import Item, source
from reflex.data.splits import hash_order
from reflex.errors import ConfigError, DataError

log = logging.getLogger(__name__)


@dataclass
class MixtureConfig:
    """rows: training rows. sources: name → weight within its group (1 = equal).
    large_share: share of sources with large taxonomies; the rest is divided over question types (equally,
    or by type_shares: question type → share, 1 for a type it leaves out), then by weight.
    max_chars: items with a longer state are left out (never cut). allow: see contamination.assert_clean.
    """

    _target_: str = "reflex.data.mixture.MixtureConfig"
    name: str = "???"
    rows: int = 20000
    sources: dict[str, float] = field(default_factory=dict)
    large_share: float = 0.25
    type_shares: dict[str, float] = field(default_factory=dict)
    max_chars: int = 4000
    seed: int = 0
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    allow: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_count("mixture.rows", self.rows)
        check_count("mixture.max_chars", self.max_chars)
        check_share("mixture.large_share", self.large_share)
        if not self.sources:
            raise ConfigError("mixture.sources: name at least one source")
        for name, weight in self.sources.items():
            check_above_zero(f"mixture.sources.{name}", weight)
        for kind, share in self.type_shares.items():
            check_choice("mixture.type_shares", kind, TYPES)
            check_not_negative(f"mixture.type_shares.{kind}", share)
        assert_clean(mixture_names(self.sources), self.allow)


def mixture_names(sources: Mapping[str, float]) -> list[str]:
    """Every name a mixture's data is known by: sources, their files and hub repositories."""
    found: list[str] = []
    for name in sources:
        each = source(name)
        found += [name, *each.files, *(hub.path for hub in each.hub)]
    return found


@dataclass(frozen=True)
class Pool:
    """One source's usable items by split; what was left out and why."""

    name: str
    family: str
    kind: str
    large: bool
    items: Mapping[str, Sequence[Item]]
    too_long: int
    overlapping: int = 0
    on_both_sides: int = 0


@dataclass(frozen=True)
class Mixture:
    config: MixtureConfig
    pools: Mapping[str, Pool]
    shares: Mapping[str, float]

    def train_rows(self) -> list[Row]:
        """All training rows in training order. Raises DataError as `counts`."""
        rows = [
            row
            for name, count in self.counts().items()
            for row in self._draw(self.pools[name], count)
        ]
        return hash_order(rows, lambda row: row.id, f"order:{self.config.seed}")

    def counts(self) -> dict[str, int]:
        """Training rows of every source. Raises DataError for one that is to give some and has no items."""
        for name, pool in self.pools.items():
            if self.shares[name] > 0 and not pool.items["train"]:
                raise DataError(
                    f"source {name}: no training items are left ({pool.too_long} are longer than "
                    f"mixture.max_chars={self.config.max_chars}, {pool.overlapping} overlap with a benchmark, "
                    f"{pool.on_both_sides} with the other side of the split); raise max_chars, or leave it out"
                )
        return apportion(self.shares, self.config.rows)

    def _draw(self, pool: Pool, count: int) -> list[Row]:
        items = pool.items["train"]
        donors = [
            other.items["train"]
            for other in self.pools.values()
            if other.family not in adjacent(pool.family)
        ]
        spare = [item for items in donors for item in items[:200]]
        rows: list[Row] = []
        epoch = 0
        while len(rows) < count:
            salt = f"epoch:{self.config.seed}:{epoch}"
            for item in hash_order(items, lambda item: item.id, salt)[: count - len(rows)]:
                row_id = f"{item.id}#{self.config.seed}.{epoch}"
                rows.append(
                    training_row(item, row_id, pool.name, pool.family, self.config.augment, spare)
                )
            epoch += 1
        return rows

    def held_out(self, split: str, per_source: int | None = None) -> list[Row]:
        """Canonical rows of `fit` (with varied numbers of options) or `report`."""
        rows = []
        for pool in self.pools.values():
            items = hash_order(pool.items[split], lambda item: item.id, f"held-out:{split}")
            for item in items[:per_source]:
                rows.append(canonical_row(item, pool.name, pool.family, split, vary=split == "fit"))
        return rows

    def facts(self) -> dict[str, Any]:
        """JSON-able description: shares, rows, oversampling, what was left out. Raises DataError as `counts`."""
        counts = self.counts()
        return {
            "name": self.config.name,
            "seed": self.config.seed,
            "sources": {
                name: {
                    "family": pool.family,
                    "share": round(self.shares[name], 6),
                    "rows": counts[name],
                    "items": {split: len(items) for split, items in pool.items.items()},
                    "times_seen": round(counts[name] / max(1, len(pool.items["train"])), 3),
                    "too_long": pool.too_long,
                    "overlapping": pool.overlapping,
                    "on_both_sides": pool.on_both_sides,
                    "licence": source(name).licence,
                    "use": source(name).use,
                }
                for name, pool in self.pools.items()
            },
        }


def load_mixture(config: MixtureConfig, root: Path | None = None) -> Mixture:
    """Read the sources, drop what overlaps with benchmarks or stands on both sides, check coverage.

    Raises DataError.
    """
    assert_clean(mixture_names(config.sources), config.allow)
    pools = without_shared_texts(
        {name: _pool(name, config, root) for name in sorted(config.sources)}
    )
    for pool in pools.values():
        check_coverage(pool)
    return Mixture(config, pools, shares(config, pools))


def _pool(name: str, config: MixtureConfig, root: Path | None) -> Pool:
    each = source(name)
    splits: dict[str, list[Item]] = {"train": [], "fit": [], "report": []}
    too_long = 0
    found = each.items(root)
    overlapping = overlapping_ids({item.id: _own_texts(item) for _, item in found}, root)
    for split, item in found:
        if item.id in overlapping:
            continue
        if len(canonical(item.states[0])) > config.max_chars:
            too_long += 1
        else:
            splits[split].append(item)
    first = next(iter(found[0][1].asks.values()))
    return Pool(name, each.family, first.kind, first.large, splits, too_long, len(overlapping))


def without_shared_texts(pools: Mapping[str, Pool]) -> dict[str, Pool]:
    """The pools without items, of either side, that share a text with one on the other side.

    The sides are the training split and the two held-out ones, over all sources: the same sentence may come
    from two of them, or stand in two pairs. Case and spacing do not count, nor texts of few words.
    """
    own_texts = {
        (name, split, item.id): set(normalised_texts(item.states[0]))
        for name, pool in pools.items()
        for split, items in pool.items.items()
        for item in items
    }
    trained, held_out = (
        {
            text
            for (_, split, _), own in own_texts.items()
            if (split == "train") is side
            for text in own
        }
        for side in (True, False)
    )
    both = trained & held_out
    found = {}
    for name, pool in pools.items():
        kept = {
            split: [item for item in items if not own_texts[name, split, item.id] & both]
            for split, items in pool.items.items()
        }
        lost = sum(len(pool.items[split]) - len(items) for split, items in kept.items())
        found[name] = replace(pool, items=kept, on_both_sides=lost)
    return found


def _own_texts(item: Item) -> list[Any]:
    """The state, and the wordings: a source may ask with words of the row itself, such as a claim."""
    wordings = (text for ask in item.asks.values() for text in (*ask.wordings, *ask.negated))
    return [item.states[0], *wordings]


def shares(config: MixtureConfig, pools: Mapping[str, Pool]) -> dict[str, float]:
    """Share of every source in the training rows; sums to 1.

    Raises ConfigError where type_shares leave nothing for the types that the sources ask.
    """
    groups: dict[str, dict[str, float]] = {}
    for name, pool in pools.items():
        group = "large" if pool.large else pool.kind
        groups.setdefault(group, {})[name] = config.sources[name]
    types = sorted(set(groups) - {"large"})
    large = config.large_share if "large" in groups else 0.0
    if not types:
        large = 1.0
    weights = {kind: config.type_shares.get(kind, 1.0) for kind in types}
    if types and not sum(weights.values()):
        raise ConfigError(
            f"mixture.type_shares: {', '.join(types)} are all the types of mixture.sources, and each gets 0; "
            "give one of them a share above 0"
        )
    found = {}
    for group, members in groups.items():
        whole = large
        if group != "large":
            whole = (1 - large) * weights[group] / sum(weights.values())
        total = sum(members.values())
        found.update({name: whole * weight / total for name, weight in members.items()})
    return found


def apportion(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """Whole numbers proportional to shares that sum to `total` (largest remainders)."""
    exact = {name: share * total for name, share in shares.items()}
    counts = {name: int(value) for name, value in exact.items()}
    left = total - sum(counts.values())
    for name in sorted(exact, key=lambda name: (counts[name] - exact[name], name))[:left]:
        counts[name] += 1
    return counts
