"""S1Bench: the draw, every word, definitions by https, upstreams, and the published figures."""

from __future__ import annotations

import csv
import gzip
import hashlib
import http.server
import json
import random
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.assets import sha256_of
from reflex.benchmarks import files
from reflex.benchmarks.s1 import board, items
from reflex.benchmarks.s1.definitions import (
    COMMIT,
    FAST,
    QUESTION,
    SHA256,
    SUBSETS,
    URL,
    Definition,
    load_definitions,
)
from reflex.benchmarks.s1.items import Item, boolq_id
from reflex.benchmarks.s1.selection import draw, select, weakest
from reflex.benchmarks.s1bench import S1Bench
from reflex.contract import option_keys, parse_question
from reflex.data.jsonl import write_lines
from reflex.errors import ConfigError, DataError, MissingDataError
from reflex.metrics.baselines import constant_correct
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import find_records
from tests import cli

NOUL = parse_question({"type": "noul", "instructions": "Is it so?"})


def _item(identity: str, label: str = "true", pinned: bool | None = None, family: str = "") -> Item:
    return Item(
        identity, {"sentence_1": identity, "sentence_2": ""}, label, family or identity, pinned
    )


def _definition(ids: list[str] | None, true: int = 2, false: int = 2) -> Definition:
    labels = {"true": true, "false": false}
    return Definition("paws", NOUL, labels, true + false, frozenset(ids) if ids else None)


FOUR = [_item(f"paws-{n}", "true" if n < 2 else "false") for n in range(4)]
IDS = [item.id for item in FOUR]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 99)), max_size=60), st.integers(1, 40))
def test_the_draw_takes_whole_families_up_to_the_limit(
    pairs: list[tuple[int, int]], limit: int
) -> None:
    pool = [_item(f"{n}", family=f"f{family}") for n, (family, _) in enumerate(pairs)]
    drawn = draw(pool, limit)
    assert len(drawn) <= limit
    for family in {item.family for item in drawn}:
        assert [i for i in drawn if i.family == family] == [i for i in pool if i.family == family]
    shuffled = list(pool)
    random.Random(1).shuffle(shuffled)
    assert {item.id for item in draw(shuffled, limit)} == {item.id for item in drawn}


def test_the_draw_is_the_documented_one() -> None:
    families = [f"f{n}" for n in range(50)]
    expected = sorted(families)
    random.Random(20260918).shuffle(expected)
    drawn = draw([_item(f"{f}-{k}", family=f) for f in families for k in range(3)], 31)
    assert list(dict.fromkeys(item.family for item in drawn)) == expected[:10]


@pytest.mark.parametrize(
    ("ids", "rows", "word", "n"),
    [
        (IDS, FOUR, "exact", 4),
        (IDS, [*FOUR, _item("paws-9")], "exact", 4),
        (IDS, FOUR[:3], "stand-in", 3),
        (IDS, [_item(each) for each in IDS], "stand-in", 4),  # other labels
        (IDS, [_item(each.id, each.label, False) for each in FOUR], "stand-in", 4),
        (IDS, [_item(f"x-{n}", each.label, True) for n, each in enumerate(FOUR)], "stand-in", 4),
        (None, FOUR, "rebuilt", 4),
        (None, [_item(each.id, each.label, True) for each in FOUR], "rebuilt", 4),
        (None, FOUR[:3], "stand-in", 3),
        (None, [_item(each.id, each.label, False) for each in FOUR], "stand-in", 4),
        (IDS, [], "missing", 0),
        (None, [], "missing", 0),
    ],
)
def test_the_word(ids: list[str] | None, rows: list[Item], word: str, n: int) -> None:
    chosen = select(_definition(ids), rows)
    assert (chosen.word, len(chosen.items)) == (word, n)
    assert chosen.reason


@pytest.mark.parametrize(("name", "word"), [("paws", "rebuilt"), ("aegis2", "stand-in")])
def test_a_draw_without_the_documented_length_filter_is_a_stand_in(name: str, word: str) -> None:
    """One row more in the pool makes another draw, also where the label counts happen to be met."""
    pool = [_item(f"{n}", "true" if n % 2 else "false") for n in range(300)]
    drawn = draw(pool, 250)
    assert {each.id for each in drawn} - {each.id for each in draw(pool[1:], 250)}
    counts = Counter(each.label for each in drawn)
    definition = Definition(name, NOUL, counts, 250, None)
    chosen = select(definition, pool)
    assert (chosen.word, len(chosen.items)) == (word, 250)
    assert ("length filter" in chosen.reason) is (word == "stand-in")
    assert select(definition, drawn).word == "rebuilt"  # a file that is already drawn


def test_words_order() -> None:
    assert weakest(["exact", "stand-in", "rebuilt"]) == "stand-in"
    assert weakest(["exact", "missing", "stand-in"]) == "missing"


BOOLQ = {
    "type": "noul",
    "instructions": "Yes?",
    "criteria": {"true": "It is.", "false": "It is not."},
    "labels": {"true": 2, "false": 1},
    "n": 3,
}
STATES = [{"passage": f"Passage {n}.", "question": f"is it {n}"} for n in range(3)]


def _boolq_rows() -> list[dict[str, Any]]:
    return [
        {"id": boolq_id(state), **state, "label": n < 2, "pinned": True}
        for n, state in enumerate(STATES)
    ]


def _lines(path: Path, rows: list[Any]) -> Path:
    write_lines(path, rows)
    return path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "s1bench"
    folder.mkdir()
    (folder / "questions.json").write_text(json.dumps({"subsets": {"boolq": BOOLQ}}))
    pins = {"boolq": [boolq_id(state) for state in STATES]}
    (folder / "pins.json").write_text(json.dumps(pins))
    _lines(folder / "boolq.jsonl", _boolq_rows())
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_suite_from_local_files(root: Path) -> None:
    suite = S1Bench(subsets=["boolq"]).load()
    facts = suite.facts["sources"]["boolq"]
    assert (facts["word"], facts["n"]) == ("exact", 3)
    assert facts["published"]["jev (published)"] == 0.897
    assert suite.facts["macro"] == {
        "subsets": ["boolq"],
        "complete": True,
        "lacking": [],
        "word": "exact",
    }
    row = suite.rows[0]
    assert (row.source, row.family, row.split) == ("boolq", "boolq", "report")
    assert list(row.state) == ["passage", "question"]
    assert row.labels == {"decision": {"true": 1.0, "false": 0.0}}
    json.dumps(suite.facts)


def test_a_changed_text_is_not_exact(root: Path) -> None:
    rows = _boolq_rows()
    rows[0]["passage"] += " More."
    _lines(root / "s1bench" / "boolq.jsonl", rows)
    facts = S1Bench(subsets=["boolq"]).load().facts["sources"]["boolq"]
    assert (facts["word"], facts["reason"]) == (
        "stand-in",
        "pinned ids, but the texts do not hash to them",
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "b"}, "field 'passage' is missing; a row here has id, passage, question, label"),
        ({"id": "b", **STATES[0], "label": "maybe"}, "give true, false or the probability"),
        ({"id": "b", **STATES[0], "label": 0.3}, "label 0.3 is soft"),
        (["b"], "a row must be a JSON object"),
        (_boolq_rows()[0], "was already used in"),
    ],
)
def test_a_bad_row_is_named(root: Path, row: Any, message: str) -> None:
    path = _lines(root / "s1bench" / "boolq.jsonl", [_boolq_rows()[0], row])
    with pytest.raises(DataError) as caught:
        S1Bench(subsets=["boolq"]).load()
    assert f"{path}:2: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_withheld_is_a_subset() -> None:
    with pytest.raises(
        ConfigError, match=r"^benchmark\.withheld: 'boolqq' stands for no subset; they"
    ):
        S1Bench(withheld=["boolqq"])


def test_a_subset_trained_on_is_withheld_and_the_macro_with_it(root: Path) -> None:
    with pytest.raises(DataError, match=r"rows at all\. boolq: the model was trained on"):
        S1Bench(subsets=["boolq"], withheld=["google/boolq"]).load()


@pytest.mark.parametrize(
    "config",
    [
        {"subsets": ["bool"]},
        {"subsets": []},
        {"subsets": ["boolq", "boolq"]},
        {"rows": "web"},
        {"definitions": "hub"},
        {"files": {"boolk": "x"}},
        {"limit": 0},
    ],
)
def test_a_bad_key_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"benchmark.{next(iter(config))}"):
        S1Bench(**config)


# --- definitions by https -----------------------------------------------------------------------


def _public(name: str, raw: dict[str, Any], ids: list[str]) -> bytes:
    """The public files' form of a definition."""
    labels = {str(key).capitalize(): count for key, count in raw["labels"].items()}
    fields = {key: raw[key] for key in ("instructions", "criteria")}
    value = {"subset": name, "count": raw["n"], "labels": labels, **fields, "ids": ids}
    return json.dumps(value, indent=1).encode()


class _Server:
    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        server = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(folder))

            def log_message(self, format: str, *args: Any) -> None:
                server.asked.append(str(args[0]))

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server(root: Path) -> Iterator[_Server]:
    folder = root / "public"
    folder.mkdir()
    ids = [boolq_id(state) for state in STATES]
    (folder / "boolq.json").write_bytes(_public("boolq", BOOLQ, ids))
    found = _Server(folder)
    yield found
    found.close()


def _pin(root: Path) -> dict[str, str]:
    return {"boolq": hashlib.sha256((root / "public" / "boolq.json").read_bytes()).hexdigest()}


def test_https_and_local_definitions_are_the_same(root: Path, server: _Server) -> None:
    fetched, hashes = load_definitions(["boolq"], "https", server.url, _pin(root))
    assert fetched == load_definitions(["boolq"], "local")[0]
    assert hashes == {"boolq.json": _pin(root)["boolq"]}
    assert len(server.asked) == 1
    server.close()  # from here on the cache answers
    assert load_definitions(["boolq"], "https", server.url, _pin(root))[0] == fetched


def test_a_wrong_hash_keeps_nothing(root: Path, server: _Server) -> None:
    with pytest.raises(DataError, match=r"sha256 \w+…, pinned is 0000000000000000…"):
        load_definitions(["boolq"], "https", server.url, {"boolq": "0" * 64})
    assert not list((root / "cache").rglob("*.json"))


def test_https_that_cannot_be_reached(root: Path, server: _Server) -> None:
    pin = _pin(root)
    server.close()
    with pytest.raises(DataError, match="could not be fetched") as caught:
        load_definitions(["boolq"], "https", server.url, pin)
    assert "REFLEX_DATA" in str(caught.value)
    with pytest.raises(DataError, match="must be https"):
        load_definitions(["boolq"], "https", "http://example.org/x", pin)


def test_auto_falls_back_to_https_without_local_definitions(
    root: Path, server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHA256, "boolq", _pin(root)["boolq"])
    (root / "s1bench" / "questions.json").unlink()
    suite = S1Bench(subsets=["boolq"], definitions_url=server.url).load()
    assert suite.facts["sources"]["boolq"]["word"] == "exact"
    with pytest.raises(DataError, match=r"no s1bench/questions\.json below REFLEX_DATA"):
        S1Bench(subsets=["boolq"], definitions="local").load()


def test_every_subset_is_pinned_by_commit_and_hash() -> None:
    assert set(SHA256) == set(SUBSETS)
    assert len(set(SHA256.values())) == 13
    assert URL.startswith("https://")
    assert COMMIT in URL


def test_the_pinned_hash_is_that_of_the_public_file(data_root: Path) -> None:
    """Built again from the local copy; the form is the public file's (boolq, whose ids are here)."""
    raw = json.loads((data_root / "s1bench/questions.json").read_text())["subsets"]["boolq"]
    pins = json.loads((data_root / "s1bench/pins.json").read_text())["boolq"]
    nimble = "62076b4f2d365b5879dafcf7f6dd072a1fe76df7"
    value = {
        "subset": "boolq",
        "source": f"https://github.com/bespokelabsai/nimble/blob/{nimble}/docs/assets/"
        "public-benchmarks/subsets/boolq-manifest.json",
        "upstream": "https://huggingface.co/datasets/google/boolq",
        "license": "CC BY-SA 3.0",
        "dataset_sha256": raw["dataset_sha256"],
        "count": raw["n"],
        "labels": {"False": raw["labels"]["false"], "True": raw["labels"]["true"]},
        "instructions": raw["instructions"],
        "criteria": raw["criteria"],
        "ids": pins,
    }
    text = json.dumps(value, indent=1) + "\n"
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256["boolq"]


# --- the hub's upstreams ------------------------------------------------------------------------

SCENARIOS = ["social", "calendar"]
RECORDS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "vitaminc-dev": (
        [{"unique_id": "c1_1", "case_id": "c1", "evidence": "e", "claim": "c", "label": "REFUTES"}],
        [("vitaminc-c1_1", "REFUTES")],
    ),
    "massive-en-US": ([{"id": "7", "utt": "meet", "scenario": 1}], [("massive-7", "calendar")]),
    "massive-de-DE": ([{"id": "7", "utt": "treffen", "scenario": 0}], [("massive-7", "social")]),
    "boolq": (
        [{"question": "q", "passage": "p", "answer": True}],
        [("boolq-" + hashlib.sha256(b"q\np").hexdigest()[:16], "true")],
    ),
    "squad2": (
        [
            {"id": "a", "context": "p", "question": "q", "answers": {"text": [" "]}},
            {"id": "b", "context": "p", "question": "q", "answers": {"text": ["", "x"]}},
        ],
        [("squad2-a", "false"), ("squad2-b", "true")],
    ),
    "paws": (
        [{"id": 3, "sentence1": "a", "sentence2": "b", "label": 1}],
        [("paws-3", "true")],
    ),
    "multinli": (
        [
            {"pairID": "9e", "promptID": 9, "premise": "p ", "hypothesis": "h", "label": 2},
            {"pairID": "9n", "promptID": 9, "premise": "p ", "hypothesis": "h", "label": -1},
        ],
        [("multinli-9e", "contradiction")],
    ),
    "civil_comments": (
        [
            {"text": " ", "toxicity": 0.9},
            {"text": "x", "toxicity": 0.5},
            {"text": "y", "toxicity": 0.1},
        ],
        [("civil_comments-1", "true"), ("civil_comments-2", "false")],
    ),
    "aegis2": (
        [
            {"id": "u", "prompt": "p", "prompt_label_source": "human", "prompt_label": "unsafe"},
            {"id": "m", "prompt": "p", "prompt_label_source": "model", "prompt_label": "safe"},
            {
                "id": "r",
                "prompt": "REDACTED",
                "prompt_label_source": "human",
                "prompt_label": "safe",
                "reconstruction_id_if_redacted": 12,
            },
        ],
        [("aegis2-u", "true")],
    ),
    "helpsteer2": (
        [{"prompt": "p", "response": "r", "helpfulness": 3}],
        [("helpsteer2-0", "3")],
    ),
    "summeval-relevance": (
        [{"id": "cnn-1", "text": "t", "machine_summaries": ["a", "b"], "relevance": [1.5, 4.4]}],
        [("summeval-relevance-cnn-1-0", "1"), ("summeval-relevance-cnn-1-1", "3")],
    ),
    "summeval-consistency": (
        [{"id": "cnn-1", "text": "t", "machine_summaries": ["a"], "consistency": [1.0]}],
        [("summeval-consistency-cnn-1-0", "0")],
    ),
    "pubmedqa": (
        [
            {
                "pubid": 5,
                "question": "q",
                "context": {"contexts": ["one", " ", "two"]},
                "final_decision": "Maybe",
            }
        ],
        [("pubmedqa-5", "maybe")],
    ),
}


def _upstream_file(folder: Path, file: files.HubFile, rows: list[dict[str, Any]]) -> Path:
    path = folder / Path(file.name).name
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(rows)
        if "scenario" in rows[0]:
            info = {"info": {"features": {"scenario": {"names": SCENARIOS}}}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
        pq.write_table(table, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("name", SUBSETS)
def test_each_upstream_is_read_in_its_own_form(
    name: str, tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    definition = load_definitions([name], "local")[0][name]
    records, expected = RECORDS[name]
    path = _upstream_file(tmp_path, items.UPSTREAMS[name].file, records)
    monkeypatch.setattr(files, "download", lambda file: path)
    monkeypatch.setattr(items, "download", lambda file: path)
    found = items.hub_items(definition)
    assert [(item.id, item.label) for item in found] == expected
    for item in found:
        if definition.fields:
            assert isinstance(item.state, dict)
            assert tuple(item.state) == definition.fields
            assert all(isinstance(text, str) and text for text in item.state.values())
        else:
            assert item.state in ("x", "y")


def test_an_upstream_that_changed_its_form_is_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "x.parquet"
    pq.write_table(pa.Table.from_pylist([{"question": "q"}]), path)
    for module in (files, items):
        monkeypatch.setattr(module, "download", lambda file: path)
    definition = load_definitions(["boolq"])[0]["boolq"]
    with pytest.raises(DataError, match=r"parquet:1: not in the form .*KeyError\('passage'\)"):
        items.hub_items(definition)


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [("x.jsonl", '{"question": "q"}\n\n{"question": \n', 3), ("x.json", '[{"a": 1},\n{"a" 2}]', 2)],
)
def test_an_upstream_that_is_not_json_is_named_with_its_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, line: int
) -> None:
    path = root / file
    path.write_text(text)
    for module in (files, items):
        monkeypatch.setattr(module, "download", lambda file: path)
    upstream = items.Upstream(items.UPSTREAMS["boolq"].file, lambda raw, number: iter(()), "")
    monkeypatch.setitem(items.UPSTREAMS, "boolq", upstream)
    definition = load_definitions(["boolq"])[0]["boolq"]
    with pytest.raises(DataError, match=re.escape(f"{path}:{line}: not JSON (")) as caught:
        items.hub_items(definition)
    assert "\n" not in str(caught.value)


def test_one_upstream_out_of_reach_is_missing_not_fatal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(file: files.HubFile) -> Path:
        raise MissingDataError(f"{file} could not be fetched (offline); {files.FETCH}")

    monkeypatch.setattr("reflex.benchmarks.s1bench.download", download)
    with pytest.raises(DataError, match=r"rows at all\. boolq: google/boolq/data/"):
        S1Bench(subsets=["boolq"], rows="hub").load()


def test_tables_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["x", "y"], ["1", "two\nlines, and a comma"]])
    assert list(files.read_table(path)) == [{"x": "1", "y": "two\nlines, and a comma"}]
    with pytest.raises(DataError, match="unknown kind of file"):
        list(files.read_table(_lines(tmp_path / "a.bin", [])))


# --- the rows at hand ---------------------------------------------------------------------------


def test_words_of_the_real_rows(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    suite = S1Bench(limit=40).load()
    words = {name: facts["word"] for name, facts in suite.facts["sources"].items()}
    assert list(words) == list(SUBSETS)
    assert words["boolq"] == words["massive-en-US"] == "exact"
    assert words["vitaminc-dev"] == words["paws"] == words["massive-de-DE"] == "stand-in"
    assert words["summeval-relevance"] == words["summeval-consistency"] == "stand-in"
    assert words["aegis2"] == words["civil_comments"] == words["helpsteer2"] == "missing"
    boolq = suite.facts["sources"]["boolq"]
    assert (boolq["n"], boolq["n_available"], boolq["n_pinned"]) == (40, 300, 300)
    assert not suite.facts["macro"]["complete"]
    assert suite.facts["macro"]["word"] is None
    every = dict.fromkeys(SUBSETS, 1.0)
    assert board.macro(every, suite.facts) is None  # whatever figures stand there
    for name in words:
        count = sum(row.source == name for row in suite.rows)
        assert count == suite.facts["sources"][name]["n"]


def test_majority_baselines_of_exact_subsets(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    suite = S1Bench(subsets=["boolq", "massive-en-US"]).load()
    for name, share in (("boolq", 0.580), ("massive-en-US", 0.163)):
        labels = [row.labels[QUESTION] for row in suite.rows if row.source == name]
        frame = pd.DataFrame(
            {
                "question_id": QUESTION,
                "keys": [list(label) for label in labels],
                "gold": [list(label.values()).index(1.0) for label in labels],
            }
        )
        assert round(constant_correct(frame).mean(), 3) == share
    assert suite.facts["sources"]["boolq"]["groups"] == 274


def test_an_article_rated_twice_is_one_cluster(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    names = ["summeval-relevance", "summeval-consistency"]
    rows = S1Bench(subsets=names).load().rows
    relevance, consistency = ({r.group for r in rows if r.source == name} for name in names)
    assert len(relevance & consistency) == 9
    assert len(relevance | consistency) == 15


@pytest.mark.parametrize("name", ["pubmedqa", "squad2", "multinli"])
def test_rows_nobody_has_seen_load_in_the_documented_form(
    name: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s1bench"
    folder.mkdir()
    for each in ("questions.json", "pins.json"):
        shutil.copy(data_root / "s1bench" / each, folder / each)
    shutil.copy(data_root / "s1bench" / f"{name}.sample.jsonl", folder / f"{name}.jsonl")
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    suite = S1Bench(subsets=[name]).load()
    assert len(suite.rows) == 8
    assert suite.facts["sources"][name]["word"] == "stand-in"  # 8 of 250 to 299
    assert all(max(row.labels["decision"].values()) == 1 for row in suite.rows)
    keys = {option_keys(row.questions["decision"]) for row in suite.rows}
    assert len(keys) == 1
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    sampled = S1Bench(subsets=[name], samples=True).load()
    given = S1Bench(subsets=[name], files={name: str(folder / f"{name}.jsonl")}).load()
    assert sampled.rows == given.rows == suite.rows


def test_files_of_one_name_are_all_told(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    paths = {}
    for name in ("squad2", "pubmedqa"):
        (tmp_path / name).mkdir()
        paths[name] = str(tmp_path / name / "rows.jsonl")
        shutil.copy(data_root / "s1bench" / f"{name}.sample.jsonl", paths[name])
    facts = S1Bench(subsets=list(paths), files=paths).load().facts
    for name, path in paths.items():
        assert facts["files"][f"{name}: rows.jsonl"] == sha256_of(Path(path))
        assert facts["sources"][name]["files"] == [f"{name}: rows.jsonl"]


@pytest.mark.slow
def test_unseen_rows_are_scored_with_their_word_and_without_a_macro(
    data_root: Path, tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the documented files to the page, through the command; aegis2 has no rows here."""
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    names = ["pubmedqa", "squad2", "multinli"]
    ended = cli.run(
        *("backbone=tiny_llama", "device.dtype=float32", "tracker=none", "benchmark=s1bench"),
        *(f"benchmark.subsets=[{','.join([*names, 'aegis2'])}]", "benchmark.samples=true"),
    )
    assert ended.status == 0, ended.err
    (found,) = find_records(tmp_runs).found
    frame = read_predictions(found.path)
    assert found.record.metrics["nll"]["n"] == len(frame) == 24
    whole = {"pubmedqa": 0, "squad2": 0, "multinli": 0}
    page = ended.page.read_text()
    for name in names:
        own = frame[frame["source"] == name]
        nll = [-np.log(p[gold]) for p, gold in zip(own["probabilities"], own["gold"], strict=True)]
        assert found.record.by["source"][name]["nll"]["value"] == pytest.approx(np.mean(nll))
        whole[name] = found.record.data["facts"]["sources"][name]["n_pinned"]
        assert f"| {name} | stand-in, 8 of {whole[name]} | " in page
        assert f"{np.mean(nll):.4f}" in page
    assert "| aegis2 | missing | " in page
    assert "No macro is given: 1 of 4 subsets have no figure: aegis2." in page
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")}
    for heading in ("Cells", "By question type", "Reliability"):
        assert "stand-in, a part" in sections[heading], heading
    (row,) = ended.table
    assert "stand-in, a part" in row


# --- the published board ------------------------------------------------------------------------


def test_published_macros_are_the_means_of_their_subsets() -> None:
    for each in board.BOARD:
        mean = sum(each.accuracy.values()) / 6
        assert each.macro == pytest.approx(mean, abs=6e-5), each.system
    for each in board.REPORTS:
        mean = sum(each.accuracy.values()) / 13
        assert each.macro == pytest.approx(mean, abs=1e-3), each.system
    assert len(board.BOARD) == 20
    assert set(board.published("boolq")) > {"jev (published)", "jev (board)", "reflex-4b (board)"}
    assert "jev (board)" not in board.published("squad2")


def test_a_macro_needs_every_subset_and_takes_the_weakest_word() -> None:
    facts = {
        "macro": {"subsets": list(FAST)},
        "sources": {name: {"word": "exact"} for name in FAST},
    }
    accuracy = {name: n / 10 for n, name in enumerate(FAST)}
    assert board.macro(accuracy, facts) == {"value": 0.25, "word": "exact", "n": 6}
    facts["sources"]["paws"]["word"] = "stand-in"  # type: ignore[index]
    assert (board.macro(accuracy, facts) or {})["word"] == "stand-in"
    del accuracy["boolq"]
    assert board.macro(accuracy, facts) is None
    facts["sources"]["paws"]["word"] = "withheld"  # type: ignore[index]
    assert board.macro(dict.fromkeys(FAST, 1.0), facts) is None
