"""The word beside a figure: how sure it is that a suite's rows are the benchmark's own items.

Pages, plots and W&B take it from here, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reflex.benchmarks.s1.selection import WORDS, weakest

if TYPE_CHECKING:
    import pandas as pd

ABSENT = ("missing", "withheld")
"""Words of sources without a figure."""


def sources_of(facts: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, Any]]:
    """What a suite's facts say of each of its sources; empty for a suite that says nothing."""
    found = (facts or {}).get("sources")
    return found if isinstance(found, dict) else {}


def word_of(source: Mapping[str, Any]) -> str | None:
    """The source's word; how many of its items were read where that is not all of them."""
    word = source.get("word")
    if word is None or word in ABSENT:
        return word
    read, whole = read_of(source), whole_of(source)
    return f"{word}, {read} of {whole}" if read and whole and read < whole else str(word)


def read_of(source: Mapping[str, Any]) -> int | None:
    """How many of its items were read: those that are measured (`n`), and those that are fitted on."""
    splits = source.get("splits")
    return sum(splits.values()) if splits else source.get("n")


def whole_of(source: Mapping[str, Any]) -> int | None:
    """How many items the source's word speaks of."""
    return source.get("n_pinned") or source.get("n_asked") or source.get("n_available")


def combined(sources: Iterable[Mapping[str, Any]]) -> str | None:
    """The word of a figure over several sources: the weakest, and that it is over a part of the items."""
    present = [each for each in sources if each.get("word") in WORDS and each["word"] not in ABSENT]
    if not present:
        return None
    if len(present) == 1:
        return word_of(present[0])
    word = weakest(each["word"] for each in present)
    counts = {each["word"] for each in present}
    text = word if len(counts) == 1 else f"{word} (weakest of {len(present)})"
    return f"{text}, a part" if any(word_of(each) != each["word"] for each in present) else text


def categories_of(predictions: pd.DataFrame, facts: Mapping[str, Any] | None) -> pd.Series:
    """The category of every prediction by its family, `none` for a family without one."""
    known = (facts or {}).get("categories") or {}
    return predictions["family"].map(lambda family: known.get(family, "none"))


def words_by(
    facts: Mapping[str, Any] | None, column: str, predictions: pd.DataFrame | None
) -> dict[str, str]:
    """Value of a predictions column → word of the figures over its rows; empty for a suite without words.

    The column `source` needs no predictions.
    """
    known = sources_of(facts)
    if not any("word" in each for each in known.values()):
        return {}
    if column == "source":
        named = {name: [each] for name, each in known.items()}
    else:
        assert predictions is not None
        frame = predictions
        if column == "category":
            frame = frame.assign(category=categories_of(frame, facts))
        groups = frame.groupby(frame[column].astype(str))["source"].unique()
        named = {str(v): [known[s] for s in own if s in known] for v, own in groups.items()}
    found = {value: combined(each) for value, each in named.items()}
    return {value: word for value, word in found.items() if word is not None}
