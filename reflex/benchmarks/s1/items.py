"""S1Bench items of one subset, read from a local JSON Lines file or from the hub's upstream.

Local rows, one object a line: `id`, the subset's state fields, `label` (true/false, option name or
level), and if known `pinned` (whether the row is one of S1Bench's own) and `family`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflex.benchmarks.files import (
    HubFile,
    class_names,
    download,
    hub_objects,
    local_file,
    local_objects,
    need,
    note_id,
)
from reflex.benchmarks.s1.definitions import Definition
from reflex.data.rows import State, parse_label
from reflex.errors import DataError


@dataclass(frozen=True)
class Item:
    """`label` is an option key, `family` what the draw keeps together and the bootstrap resamples."""

    id: str
    state: State
    label: str
    family: str
    pinned: bool | None = None


Raw = tuple[str, dict[str, Any] | str, Any]  # id, state, label as the source has it


@dataclass(frozen=True)
class Upstream:
    """`read` turns one upstream record and its row number (from 0) into any number of items."""

    file: HubFile
    read: Callable[[dict[str, Any], int], Iterator[Raw]]
    licence: str


def local_path(name: str, samples: bool = False) -> Path | None:
    """The subset's file below `REFLEX_DATA/s1bench`: `<name>.jsonl`, - or _, any case, split optional."""
    stem = name.replace("-", "_").lower()
    stems = [name, stem, *([f"{stem.removesuffix('_dev')}{end}" for end in ("", "_test")])]
    names = [f"{each}.jsonl" for each in stems if each in (name, stem) or stem.endswith("_dev")]
    return local_file("s1bench", *names, *([f"{stem}.sample.jsonl"] if samples else []))


def local_items(path: Path, definition: Definition) -> list[Item]:
    """Every row of the file. Raises DataError `file:line: what is wrong; the fix`."""
    items: list[Item] = []
    seen: dict[str, str] = {}
    fields = definition.fields or ("text",)
    for where, raw in local_objects(path):
        need(raw, ("id", *fields, "label"), where)
        state = {name: raw[name] for name in fields} if definition.fields else raw["text"]
        item = _item(definition, (str(raw["id"]), state, raw["label"]), where, raw)
        note_id(seen, item.id, where)
        items.append(item)
    return items


def hub_items(definition: Definition) -> list[Item]:
    """Every item of the upstream split, before any selection. Raises DataError."""
    upstream = UPSTREAMS[definition.name]
    read = upstream.read
    if definition.name.startswith("massive"):
        names = class_names(download(upstream.file), "scenario")
        read = _massive(definition.name.removeprefix("massive-"), names)
    items = []
    for number, (where, raw) in enumerate(hub_objects(upstream.file)):
        try:
            items += [_item(definition, each, where, raw) for each in read(raw, number)]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(
                f"{where}: not in the form this subset is read from ({error!r}); "
                "the upstream has changed: take the rows from REFLEX_DATA"
            ) from None
    return items


def _item(definition: Definition, item: Raw, where: str, raw: dict[str, Any]) -> Item:
    identity, state, label = item
    try:
        target = parse_label(definition.question, label)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    if max(target.values()) != 1:
        raise DataError(f"{where}: label {label!r} is soft; S1Bench labels are hard")
    pinned = raw.get("pinned")
    return Item(
        id=identity,
        state=state,
        label=max(target, key=lambda key: target[key]),
        family=_family(definition.name, identity, state, raw),
        pinned=pinned if isinstance(pinned, bool) else None,
    )


def _family(name: str, identity: str, state: Any, raw: dict[str, Any]) -> str:
    """The key whole families are drawn by (reference: the Nimble suite's manifests)."""
    if raw.get("family"):
        return str(raw["family"])
    if name == "vitaminc-dev":
        return str(raw.get("case_id") or identity.removeprefix("vitaminc-").rsplit("_", 1)[0])
    if name == "boolq":
        return hashlib.sha256(state["passage"].encode()).hexdigest()
    if name == "squad2":
        return str(state["paragraph"])
    if name == "multinli":
        return str(raw.get("promptID") or state["premise"])
    if name == "helpsteer2":
        return str(state["prompt"])
    if name.startswith("summeval"):
        return identity.removeprefix(f"{name}-").rsplit("-", 1)[0]
    return identity


def boolq_id(state: Any) -> str:
    """S1Bench's id of a BoolQ item, which is a hash of its text."""
    text = f"{state['question']}\n{state['passage']}"
    return "boolq-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _vitaminc(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    state = {"evidence": raw["evidence"], "claim": raw["claim"]}
    yield f"vitaminc-{raw['unique_id']}", state, raw["label"]


def _massive(locale: str, scenarios: list[str]) -> Callable[[dict[str, Any], int], Iterator[Raw]]:
    def read(raw: dict[str, Any], _: int) -> Iterator[Raw]:
        state = {"utterance": raw["utt"], "locale": locale}
        yield f"massive-{raw['id']}", state, scenarios[raw["scenario"]]

    return read


def _boolq(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    state = {"passage": raw["passage"], "question": raw["question"]}
    yield boolq_id(state), state, raw["answer"]


def _squad2(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    state = {"paragraph": raw["context"], "question": raw["question"]}
    yield f"squad2-{raw['id']}", state, any(text.strip() for text in raw["answers"]["text"])


def _paws(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    state = {"sentence_1": raw["sentence1"], "sentence_2": raw["sentence2"]}
    yield f"paws-{raw['id']}", state, raw["label"] == 1


def _multinli(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    if raw["label"] >= 0:  # -1: no majority among the annotators
        state = {"premise": raw["premise"].strip(), "hypothesis": raw["hypothesis"].strip()}
        label = ("entailment", "neutral", "contradiction")[raw["label"]]
        yield f"multinli-{raw['pairID']}", state, label


def _civil_comments(raw: dict[str, Any], number: int) -> Iterator[Raw]:
    if text := (raw["text"] or "").strip():
        yield f"civil_comments-{number}", text, raw["toxicity"] >= 0.5


def _aegis2(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    text = (raw["prompt"] or "").strip()
    human = raw["prompt_label_source"] == "human"
    if text and human and raw.get("reconstruction_id_if_redacted") is None:
        yield f"aegis2-{raw['id']}", {"user_message": text}, raw["prompt_label"] == "unsafe"


def _helpsteer2(raw: dict[str, Any], number: int) -> Iterator[Raw]:
    state = {"prompt": raw["prompt"], "response": raw["response"]}
    yield f"helpsteer2-{number}", state, int(raw["helpfulness"])


def _summeval(dimension: str) -> Callable[[dict[str, Any], int], Iterator[Raw]]:
    def read(raw: dict[str, Any], _: int) -> Iterator[Raw]:
        for place, summary in enumerate(raw["machine_summaries"]):
            level = math.floor(raw[dimension][place] + 0.5) - 1  # mean of three experts, 1 to 5
            state = {"article": raw["text"], "summary": summary}
            yield f"summeval-{dimension}-{raw['id']}-{place}", state, min(4, max(0, level))

    return read


def _pubmedqa(raw: dict[str, Any], _: int) -> Iterator[Raw]:
    context = " ".join(part for part in raw["context"]["contexts"] if part and part.strip())
    state = {"question": raw["question"], "abstract_context": context}
    yield f"pubmedqa-{raw['pubid']}", state, raw["final_decision"].strip().lower()


_CONVERTED = "refs/convert/parquet"
_MASSIVE = "AmazonScience/massive"
_SUMMEVAL = HubFile("mteb/summeval", "data/test-00000-of-00001-35901af5f6649399.parquet")
_MULTINLI = HubFile("nyu-mll/multi_nli", "data/validation_matched-00000-of-00001.parquet")
_PAWS = HubFile("google-research-datasets/paws", "labeled_final/test-00000-of-00001.parquet")
_PUBMEDQA = HubFile("qiaojin/PubMedQA", "pqa_labeled/train-00000-of-00001.parquet")
_SQUAD = HubFile("rajpurkar/squad_v2", "squad_v2/validation-00000-of-00001.parquet")
_CIVIL = HubFile("google/civil_comments", "data/test-00000-of-00001.parquet")
_AEGIS = HubFile("nvidia/Aegis-AI-Content-Safety-Dataset-2.0", "test.json")

UPSTREAMS: dict[str, Upstream] = {
    "vitaminc-dev": Upstream(HubFile("tals/vitaminc", "dev.jsonl"), _vitaminc, "CC BY-SA 3.0"),
    **{
        f"massive-{locale}": Upstream(
            HubFile(_MASSIVE, f"{locale}/test/0000.parquet", _CONVERTED),
            _massive(locale, []),
            "CC BY 4.0",
        )
        for locale in ("en-US", "de-DE")
    },
    "boolq": Upstream(
        HubFile("google/boolq", "data/validation-00000-of-00001.parquet"), _boolq, "CC BY-SA 3.0"
    ),
    "squad2": Upstream(_SQUAD, _squad2, "CC BY-SA 4.0"),
    "paws": Upstream(_PAWS, _paws, "Google PAWS licence (any purpose)"),
    "multinli": Upstream(_MULTINLI, _multinli, "by genre: public domain, CC BY-SA 3.0 and others"),
    "civil_comments": Upstream(_CIVIL, _civil_comments, "CC0 1.0"),
    "aegis2": Upstream(_AEGIS, _aegis2, "CC BY 4.0"),
    "helpsteer2": Upstream(
        HubFile("nvidia/HelpSteer2", "validation.jsonl.gz"), _helpsteer2, "CC BY 4.0"
    ),
    "summeval-relevance": Upstream(_SUMMEVAL, _summeval("relevance"), "MIT"),
    "summeval-consistency": Upstream(_SUMMEVAL, _summeval("consistency"), "MIT"),
    "pubmedqa": Upstream(_PUBMEDQA, _pubmedqa, "MIT"),
}
