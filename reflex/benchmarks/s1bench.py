"""S1Bench: 13 human-labelled subsets, and the six of its board (`subsets: fast`).

Every subset carries a word (how sure it is that these are S1Bench's items) and published figures in
`facts["sources"]`. See docs/decisions/022-s1bench-words.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflex.assets import sha256_of
from reflex.benchmarks.base import Suite, files_sha256, limited
from reflex.benchmarks.files import download
from reflex.benchmarks.s1.board import published
from reflex.benchmarks.s1.definitions import (
    FAST,
    QUESTION,
    SUBSETS,
    URL,
    Definition,
    load_definitions,
)
from reflex.benchmarks.s1.items import UPSTREAMS, Item, hub_items, local_items, local_path
from reflex.benchmarks.s1.selection import Selection, select, weakest
from reflex.benchmarks.words import ABSENT
from reflex.checks import check_choice, check_limit, check_names
from reflex.contract import option_keys
from reflex.data.contamination import blocked_subsets
from reflex.data.root import data_root
from reflex.data.rows import Row
from reflex.errors import ConfigError, DataError, MissingDataError

NOTES = {
    "word": "exact: pinned ids and label counts; rebuilt: documented draw, no ids to check; "
    "stand-in: another split or copy, or a part; missing: no rows; withheld: trained on",
    "macro": "unweighted mean over the suite's subsets, only when every one is there",
    "published": "accuracies others published; the board's ECE bins are undocumented",
}
SETS = {"all": SUBSETS, "fast": FAST}


@dataclass
class S1Bench:
    """`subsets`: names; `all` and `fast` stand for theirs. `files`: subset → a JSON Lines file to take it from.

    `rows`: `local` (below REFLEX_DATA), `hub`, or `auto`: local where REFLEX_DATA is set, else hub.
    `definitions`: `local`, `https` or `auto`. `samples` also reads `<subset>.sample.jsonl`. `withheld`:
    subsets not scored because the model was trained on them. `limit`: the first N of each subset.
    """

    _target_: str = "reflex.benchmarks.s1bench.S1Bench"
    name: str = "s1bench"
    subsets: list[str] = field(default_factory=lambda: ["all"])
    rows: str = "auto"
    definitions: str = "auto"
    definitions_url: str = URL
    files: dict[str, str] = field(default_factory=dict)
    samples: bool = False
    withheld: list[str] = field(default_factory=list)
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit("benchmark.limit", self.limit)
        self.names()
        check_choice("benchmark.rows", self.rows, ("auto", "local", "hub"))
        check_choice("benchmark.definitions", self.definitions, ("auto", "local", "https"))
        for name in self.files:
            check_choice("benchmark.files", name, SUBSETS)
        if unknown := [name for name in self.withheld if not blocked_subsets(name)]:
            raise ConfigError(
                f"benchmark.withheld: {unknown[0]!r} stands for no subset; they are {', '.join(SUBSETS)}"
            )

    report_only = True

    def fit_names(self) -> list[str]:
        """What a fit would see if it had nothing else: the subsets, which the guard refuses."""
        return list(self.names())

    def names(self) -> tuple[str, ...]:
        """The subsets asked for. Raises ConfigError for an unknown or repeated one."""
        given = [name for each in self.subsets for name in SETS.get(each, (each,))]
        check_names("benchmark.subsets", given, (*SETS, *SUBSETS))
        return tuple(given)

    def load(self) -> Suite:
        """Raises DataError when a file is wrong, MissingDataError when no subset has rows at all."""
        names = self.names()
        definitions, definition_files = load_definitions(
            names, self.definitions, self.definitions_url
        )
        withheld = {name for each in self.withheld for name in blocked_subsets(each)}
        rows: list[Row] = []
        sources: dict[str, dict[str, Any]] = {}
        hashes: dict[str, str] = dict(definition_files)
        for name in names:
            definition = definitions[name]
            if name in withheld:
                chosen = Selection([], "withheld", "the model was trained on it")
                read: dict[str, str] = {}
            else:
                chosen, read = self._read(definition)
            hashes |= read
            scored = limited([_row(definition, item) for item in chosen.items], self.limit)
            rows += scored
            sources[name] = _facts(definition, chosen, read, scored)
        if not rows:
            reasons = "; ".join(f"{name}: {each['reason']}" for name, each in sources.items())
            raise MissingDataError(f"no S1Bench rows at all. {reasons}")
        words = [each["word"] for each in sources.values()]
        lacking = [name for name in names if sources[name]["word"] in ABSENT]
        return Suite(
            name=self.name,
            rows=rows,
            facts={
                "data_sha256": files_sha256(hashes),
                "sources": sources,
                "macro": {
                    "subsets": list(names),
                    "complete": not lacking,
                    "lacking": lacking,
                    "word": None if lacking else weakest(words),
                },
                "files": hashes,
                "licences": {name: UPSTREAMS[name].licence for name in names},
                "notes": NOTES,
            },
        )

    def _read(self, definition: Definition) -> tuple[Selection, dict[str, str]]:
        """The subset's items and the files they are from (name → sha256)."""
        name = definition.name
        if name in self.files:
            path = Path(self.files[name]).expanduser()
            # Files of several subsets may be called the same.
            return _from(definition, path, f"{name}: {path.name}")
        found = None if self.rows == "hub" else local_path(name, self.samples)
        if found is not None:
            return _from(definition, found, found.name)
        if self.rows == "local" or (self.rows == "auto" and data_root() is not None):
            return Selection([], "missing", "no file of it below REFLEX_DATA/s1bench"), {}
        file = UPSTREAMS[name].file
        try:
            path = download(file)
        except MissingDataError as error:  # one upstream out of reach must not hide the others
            return Selection([], "missing", str(error)), {}
        return select(definition, hub_items(definition)), {str(file): _sha256(path)}


def _from(definition: Definition, path: Path, told: str) -> tuple[Selection, dict[str, str]]:
    """As `S1Bench._read`, of a local file that is `told` by that name."""
    return select(definition, local_items(path, definition)), {told: _sha256(path)}


def _row(definition: Definition, item: Item) -> Row:
    keys = option_keys(definition.question)
    return Row(
        id=f"s1bench/{definition.name}/{item.id}",
        state=item.state,
        questions={QUESTION: definition.question},
        labels={QUESTION: {key: float(key == item.label) for key in keys}},
        source=definition.name,
        family=definition.name,
        split="report",  # never `fit`: nothing may be fitted on S1Bench
        # Of the upstream set: an article rated twice, or an utterance in two languages, is one cluster.
        group=f"{definition.name.partition('-')[0]}/{hashlib.sha256(item.family.encode()).hexdigest()[:16]}",
    )


def _facts(
    definition: Definition, chosen: Selection, read: dict[str, str], scored: list[Row]
) -> dict[str, Any]:
    return {
        "word": chosen.word,
        "reason": chosen.reason,
        "n": len(scored),
        "n_available": len(chosen.items),
        "n_pinned": definition.n,
        "groups": len({row.group for row in scored}),
        "files": list(read),
        "licence": UPSTREAMS[definition.name].licence,
        "published": published(definition.name),
    }


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
