"""The guard: benchmark data is never training or calibration data.

`assert_clean` works on names (of sets, files, hub repositories) and is called when a config is read,
when data is built and before the first step. Sources with a clean name can still hold benchmark
text: reflex/data/guard.py compares rows. Why the rules are as they are: docs/decisions/020-contamination-guard.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reflex.errors import ConfigError, ContaminationError

ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "vitaminc-dev": ("vitaminc", "vitamin-c"),
        "massive-en-US": ("massive", "slurp", "hwu64", "hwu"),
        "massive-de-DE": ("massive", "slurp", "hwu64", "hwu"),
        "boolq": ("boolq", "bool-q", "super-glue"),
        "squad2": ("squad", "squad2", "squad-v2"),
        "paws": ("paws", "pawsx", "pawswiki"),
        "multinli": ("multinli", "mnli", "mnlim", "mnlimm", "glue", "allnli", "xnli"),
        "civil_comments": ("civil-comments", "jigsaw", "unintended-bias"),
        "aegis2": ("aegis", "nemotron-content-safety"),
        "helpsteer2": ("helpsteer",),
        "summeval-relevance": ("summeval", "summ-eval"),
        "summeval-consistency": ("summeval", "summ-eval"),
        "pubmedqa": ("pubmedqa", "pqa-labeled", "pqa-artificial"),
    }
)
"""S1Bench subset → names under which its items are published. A version number may follow any."""

SUBSETS = tuple(ALIASES)

_WHOLE = frozenset({"s1bench", "s1fast"})  # the suite itself, for example as an exported file

_COLLECTIONS = {  # alias → members that hold no benchmark items, so that naming one is clean
    "glue": frozenset({"cola", "sst2", "mrpc", "qqp", "stsb", "rte", "wnli"}),
    "superglue": frozenset({"cb", "copa", "rte", "wic", "wsc", "record", "multirc"}),
}

_SUFFIX = re.compile(r"(\.(jsonl?|parquet|csv|tsv|txt|arrow|gz|zst|zip|tar|bz2))+$", re.IGNORECASE)
_REVISION = re.compile(r"(?<=[^/:@])@[^/:]*")
_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-zA-Z])(?=[vV]\d)")
_WORDS = re.compile(r"[a-z]+|[0-9]+")


def assert_clean(
    names: Iterable[str], allow: Iterable[str] = (), key: str = "mixture.allow"
) -> dict[str, list[str]]:
    """Refuse every name that stands for benchmark data, unless it is listed in `allow`.

    Names are compared whatever their case, separators, organisation, folder, split or version.
    `key` is where `allow` stands in the configuration. Returns name → subsets for the allowed ones: put it
    into the run record and withhold the scores of those subsets. Raises ContaminationError naming each
    source and subset; ConfigError for an `allow` entry that lets nothing through (a stale exception would
    hide the next mistake).
    """
    named = list(dict.fromkeys(names))
    allowed = {_normal(name): name for name in allow}
    caught = {name: subsets for name in named if (subsets := blocked_subsets(name))}
    through = {name: list(found) for name, found in caught.items() if _normal(name) in allowed}
    if refused := {name: found for name, found in caught.items() if name not in through}:
        listed = "; ".join(f"{name!r} is {' and '.join(found)}" for name, found in refused.items())
        raise ContaminationError(
            f"benchmark data must not be trained or calibrated on: {listed}. Remove it, or list it in "
            f"{key} (the record is marked and those subsets' scores are withheld)"
        )
    used = {_normal(name) for name in through}
    if stale := [name for key, name in allowed.items() if key not in used]:
        raise ConfigError(f"{key}: {stale[0]!r} lets no source through; remove it from the list")
    return through


def blocked_subsets(name: str) -> tuple[str, ...]:
    """The benchmark subsets that `name` stands for; empty when it is clean.

    A path segment is caught when some run of its words spells an alias: `amazon_massive_intent_en-US`
    holds `massive`, `squad_v2` holds `squad`, `snli` does not hold `nli`.
    """
    path, *revisions = _parts(name)
    spelled = _spelled(path).union(*map(_spelled, revisions))
    wanted = {subset: {alias.replace("-", "") for alias in ALIASES[subset]} for subset in SUBSETS}
    return tuple(name for name in SUBSETS if (wanted[name] | _WHOLE) & spelled)


def _spelled(path: str) -> set[str]:
    """What the runs of words in each segment of a path spell; a word ends at a capital, a digit, a version's v."""
    broken = _BREAKS.sub(" ", path).lower()
    segments = [_WORDS.findall(segment) for segment in broken.split("/")]
    spelled: set[str] = set()
    for number, words in enumerate(segments):
        after = {"".join(segment) for segment in segments[number + 1 :]}
        for start in range(len(words)):
            for end in range(start + 1, len(words) + 1):
                run = "".join(words[start:end])
                if run.startswith("glue") and words[start - 1 : start] == ["super"]:
                    continue
                members = _COLLECTIONS.get(run, frozenset())
                rest = "".join(words[end:])
                if not ({rest} | after) & members:
                    spelled.add(run)
    return spelled


def _normal(name: str) -> str:
    """How names are compared: `_parts` in lower case without the revision, with one kind of separator."""
    return re.sub(r"[\s_]+", "-", _parts(name)[0].lower())


def _parts(name: str) -> list[str]:
    """The path that a name is, with forward slashes and without file endings, a `:split` being a segment; then
    each `@revision` of it (which only follows a name: `@boolq` is one itself)."""
    text = re.sub(r"^[a-zA-Z]+://", "", name.strip().replace("\\", "/"))
    path = _REVISION.sub("", text).replace(":", "/")
    segments = [_SUFFIX.sub("", segment) for segment in path.split("/")]
    return ["/".join(segment for segment in segments if segment), *_REVISION.findall(text)]
