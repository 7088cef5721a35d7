"""Four sets that no mixture of this project trains on: support intents, NLI, toxicity, review stars.

300 items each, drawn by hash of the id; from `REFLEX_DATA/external/<set>.jsonl` or the hub. They are
one of the suites of `gate.suites`, which a candidate release has to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflex.assets import sha256_of
from reflex.benchmarks.base import Suite, files_sha256, limited
from reflex.benchmarks.files import (
    FETCH,
    HubFile,
    download,
    hub_objects,
    local_file,
    local_objects,
    need,
    note_id,
)
from reflex.checks import check_choice, check_limit, check_names
from reflex.contract import Question, option_keys, parse_question
from reflex.data.root import data_root
from reflex.data.rows import Row, State, group_of, parse_label
from reflex.data.splits import hash_order
from reflex.errors import DataError, MissingDataError

WAYS = 12
"""Options of a support intent question: the intent and 11 others, drawn by hash of the item."""

NLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class Source:
    """`fields`: what a local row holds beside `id` and `label`. `hub` turns a hub record into such a row
    (None: leave it out). `state` makes the state of a row. `shared`: the field that rows of one group
    share (None: the whole state)."""

    file: HubFile
    fields: tuple[str, ...]
    hub: Callable[[dict[str, Any], int], dict[str, Any] | None]
    state: Callable[[dict[str, Any]], State]
    question: dict[str, Any]
    licence: str
    shared: str | None = None


def _bitext(raw: dict[str, Any], number: int) -> dict[str, Any]:
    return {"id": f"bitext-{number}", "text": raw["instruction"], "label": raw["intent"]}


def _mnli(raw: dict[str, Any], _: int) -> dict[str, Any] | None:
    if raw["label"] < 0:  # no majority among the annotators
        return None
    pair = {"premise": raw["premise"].strip(), "hypothesis": raw["hypothesis"].strip()}
    return {"id": f"mnli-{raw['pairID']}", **pair, "label": NLI[raw["label"]]}


def _toxic_chat(raw: dict[str, Any], _: int) -> dict[str, Any]:
    text, toxic = raw["user_input"], int(raw["toxicity"])
    return {"id": f"toxic_chat-{raw['conv_id']}", "text": text, "label": bool(toxic)}


def _yelp(raw: dict[str, Any], number: int) -> dict[str, Any]:
    return {"id": f"yelp-{number}", "text": raw["text"], "label": int(raw["label"])}


def _text(raw: dict[str, Any]) -> State:
    return str(raw["text"])


SOURCES: dict[str, Source] = {
    "support_intents": Source(
        HubFile(
            "bitext/Bitext-customer-support-llm-chatbot-training-dataset",
            "Bitext_Sample_Customer_Support_Training_Dataset_27K_responses-v11.csv",
        ),
        ("text",),
        _bitext,
        _text,
        {"type": "choice", "instructions": "What does the customer want?"},
        "CDLA-Sharing-1.0",
    ),
    "mnli_mismatched": Source(
        HubFile("nyu-mll/multi_nli", "data/validation_mismatched-00000-of-00001.parquet"),
        ("premise", "hypothesis"),
        _mnli,
        lambda raw: {"premise": raw["premise"], "hypothesis": raw["hypothesis"]},
        {
            "type": "choice",
            "instructions": "Taking the premise as true, what follows for the hypothesis?",
            "criteria": {
                "entailment": "It must be true.",
                "neutral": "It may or may not be true.",
                "contradiction": "It cannot be true.",
            },
        },
        "by genre: OANC, CC BY-SA 3.0 and others",
        shared="premise",
    ),
    "toxic_chat": Source(
        HubFile("lmsys/toxic-chat", "data/0124/toxic-chat_annotation_test.csv"),
        ("text",),
        _toxic_chat,
        _text,
        {
            "type": "noul",
            "instructions": "Is this message to a chat assistant toxic?",
            "criteria": {
                "true": "It is rude, hateful, threatening or sexual, or asks for such content.",
                "false": "It is an ordinary message, even if its topic is sensitive.",
            },
        },
        "CC BY-NC 4.0",
    ),
    "yelp_stars": Source(
        HubFile("Yelp/yelp_review_full", "yelp_review_full/test-00000-of-00001.parquet"),
        ("text",),
        _yelp,
        _text,
        {
            "type": "score",
            "instructions": "How many stars did the writer of this review give?",
            "criteria": ["one star", "two stars", "three stars", "four stars", "five stars"],
        },
        "Yelp dataset licence (research)",
    ),
}
NOTES = {
    "draw": "the first items in hash order of their ids; labels keep their natural shares",
    "support_intents": f"{WAYS} options: the intent and others drawn by hash of the item",
    "training": "no mixture that comes with this project trains on these sets, and nothing is fitted on them; "
    "a mixture that names toxic_chat or yelp_full trains on other rows of those two",
}


@dataclass
class External:
    """`per_set` items of each set. `rows`: `local`, `hub`, or `auto` (local where REFLEX_DATA is set).
    `files`: set → a JSON Lines file to take it from. `limit`: the first N of each set."""

    _target_: str = "reflex.benchmarks.external.External"
    name: str = "external"
    sets: list[str] = field(default_factory=lambda: list(SOURCES))
    per_set: int | None = 300
    rows: str = "auto"
    files: dict[str, str] = field(default_factory=dict)
    limit: int | None = None

    def __post_init__(self) -> None:
        check_limit("benchmark.per_set", self.per_set)
        check_limit("benchmark.limit", self.limit)
        check_choice("benchmark.rows", self.rows, ("auto", "local", "hub"))
        check_names("benchmark.sets", self.sets, SOURCES)
        for name in self.files:
            check_choice("benchmark.files", name, SOURCES)

    report_only = True

    def fit_names(self) -> list[str]:
        """What a fit would see if it had nothing else: all rows are for reporting."""
        return list(self.sets)

    def load(self) -> Suite:
        """Raises DataError when a row is wrong, MissingDataError when no set is there."""
        rows: list[Row] = []
        sources: dict[str, dict[str, Any]] = {}
        hashes: dict[str, str] = {}
        for name in self.sets:
            source = SOURCES[name]
            try:
                found, path, local = self._rows(name)
            except FileNotFoundError as error:
                sources[name] = {"word": "missing", "reason": str(error), "n": 0}
                continue
            hashes[name] = sha256_of(path)
            drawn = hash_order(found, lambda row: row.id, name)[: self.per_set]
            scored = limited(drawn, self.limit)
            rows += scored
            sources[name] = {
                "word": "stand-in" if local else "rebuilt",
                "reason": f"{len(drawn)} of {len(found)} rows of {path.name}"
                + (", of which nothing shows that they are the set's" if local else ""),
                "n": len(scored),
                "n_available": len(found),
                "licence": source.licence,
            }
        if not rows:
            reasons = "; ".join(f"{name}: {each['reason']}" for name, each in sources.items())
            raise MissingDataError(f"no external rows at all. {reasons}")
        return Suite(
            name=self.name,
            rows=rows,
            facts={
                "data_sha256": files_sha256(hashes),
                "sources": sources,
                "files": hashes,
                "licences": {name: SOURCES[name].licence for name in self.sets},
                "notes": NOTES,
            },
        )

    def _rows(self, name: str) -> tuple[list[Row], Path, bool]:
        """Every row of the set, the file it is from, and whether that is a local one, not the hub's.
        FileNotFoundError says why there is none."""
        source = SOURCES[name]
        raws: list[tuple[str, dict[str, Any]]] = []
        if name in self.files:
            path: Path | None = Path(self.files[name]).expanduser()
        else:
            path = None if self.rows == "hub" else local_file("external", f"{name}.jsonl")
        local = path is not None
        if path is not None:
            raws = list(local_objects(path))
        elif self.rows == "local" or (self.rows == "auto" and data_root() is not None):
            raise FileNotFoundError(f"no external/{name}.jsonl below REFLEX_DATA; {FETCH}")
        else:
            try:
                path = download(source.file)
            except MissingDataError as error:
                raise FileNotFoundError(str(error)) from None
            for number, (where, raw) in enumerate(hub_objects(source.file)):
                try:
                    record = source.hub(raw, number)
                except (KeyError, TypeError, ValueError, IndexError) as error:
                    raise DataError(f"{where}: not in the expected form ({error!r})") from None
                raws += [(where, record)] if record is not None else []
        for where, raw in raws:
            need(raw, ("id", *source.fields, "label"), where)
        labels = sorted({str(raw["label"]) for _, raw in raws})
        rows = [_row(name, where, raw, labels) for where, raw in raws]
        seen: dict[str, str] = {}
        for row, (where, _) in zip(rows, raws, strict=True):
            note_id(seen, row.id, where)
        return rows, path, local


def _row(name: str, where: str, raw: dict[str, Any], labels: list[str]) -> Row:
    source, identity = SOURCES[name], f"external/{name}/{raw['id']}"
    description = dict(source.question)
    if name == "support_intents":
        gold = str(raw["label"])
        others = hash_order([each for each in labels if each != gold], str, identity)[: WAYS - 1]
        options = hash_order([gold, *others], str, f"{identity}/order")
        description["criteria"] = {each: each.replace("_", " ") for each in options}
    question: Question = parse_question(description, (name,))
    try:
        label = parse_label(question, raw["label"])
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    assert tuple(label) == option_keys(question)
    return Row(
        id=identity,
        state=source.state(raw),
        questions={"decision": question},
        labels={"decision": label},
        source=name,
        family=name,
        split="report",
        group=f"{name}/{group_of(raw[source.shared])}" if source.shared else "",
    )
