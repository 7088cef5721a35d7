"""Whole suites through the hub's real client: repository, file, revision and column names as they are there.

The files stand in the client's cache and are small; their columns are those of the hub's, the ones nobody reads
included.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants

from reflex.benchmarks.external import SOURCES, External
from reflex.benchmarks.files import HubFile
from reflex.benchmarks.mmlu import HUB, MMLU, QUESTION
from reflex.benchmarks.s1.definitions import SUBSETS
from reflex.benchmarks.s1.items import UPSTREAMS
from reflex.benchmarks.s1bench import S1Bench
from reflex.data.rows import Row
from reflex.errors import DataError
from tests.hub_cache import put
from tests.test_s1bench import RECORDS, _upstream_file

UNREAD: dict[str, dict[str, Any]] = {
    "vitaminc-dev": {"wiki_revision_id": "1", "revision_type": "real", "page": "P"},
    "massive-en-US": {"locale": "en-US", "partition": "test", "intent": 3, "annot_utt": "meet"},
    "massive-de-DE": {"locale": "de-DE", "partition": "test", "intent": 3, "annot_utt": "treffen"},
    "squad2": {"title": "T"},
    "multinli": {"premise_parse": "(ROOT)", "hypothesis_parse": "(ROOT)", "genre": "fiction"},
    "civil_comments": {"severe_toxicity": 0.0, "insult": 0.1},
    "aegis2": {"response": None, "violated_categories": "", "response_label": None},
    "helpsteer2": {"correctness": 1, "coherence": 4, "complexity": 2, "verbosity": 1},
    "summeval-relevance": {"human_summaries": ["h"], "coherence": [1.0, 1.0], "fluency": [5.0]},
    "pubmedqa": {"long_answer": "Because."},
}
"""Columns of the hub's files beside those that are read."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.delenv("REFLEX_DATA", raising=False)
    return tmp_path / "hub"


def publish(cache: Path, file: HubFile, data: bytes) -> None:
    put(cache, file.repo, {file.name: data}, "dataset", file.revision)


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def gold(row: Row) -> str:
    label = row.labels["decision"]
    return max(label, key=label.__getitem__)


def test_mmlu(cache: Path) -> None:
    rows = [
        {"question": f"Is it {n}?", "subject": subject, "choices": list("abcd"), "answer": n}
        for subject in ("anatomy", "virology")
        for n in range(3)
    ]
    publish(cache, HubFile("cais/mmlu", "all/test-00000-of-00001.parquet"), parquet(rows))
    for how in ("auto", "hub"):
        suite = MMLU(rows=how).load()
        assert [row.labels[QUESTION]["abc"[i % 3]] for i, row in enumerate(suite.rows)] == [1.0] * 6
        assert suite.facts["sources"]["mmlu"]["reason"] == f"6 of 6 items of {HUB}"
        assert {row.split for row in suite.rows} <= {"fit", "report"}


def test_every_subset_of_s1bench(
    cache: Path, tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "REFLEX_DATA", str(data_root)
    )  # for the questions; the rows come from the hub
    done: set[HubFile] = set()
    for name in SUBSETS:
        file = UPSTREAMS[name].file
        if file in done:  # both dimensions of SummEval are in one file
            continue
        done.add(file)
        records = [{**record, **UNREAD.get(name, {})} for record in RECORDS[name][0]]
        if name.startswith("summeval"):
            records = [{**each, "consistency": [1.0, 5.0]} for each in records]
        folder = tmp_path / name
        folder.mkdir()
        publish(cache, file, _upstream_file(folder, file, records).read_bytes())
    suite = S1Bench(rows="hub", definitions="local").load()
    sources = suite.facts["sources"]
    assert list(sources) == list(SUBSETS)
    assert {each["word"] for each in sources.values()} == {"stand-in"}, "a row or two of each"
    assert {name: each["files"] for name, each in sources.items()} == {
        name: [str(UPSTREAMS[name].file)] for name in SUBSETS
    }
    found = {name: [r for r in suite.rows if r.source == name] for name in SUBSETS}
    for name in set(SUBSETS) - {"summeval-consistency"}:
        golds = {row.id: gold(row) for row in found[name]}
        assert golds == {f"s1bench/{name}/{item}": label for item, label in RECORDS[name][1]}
    assert len(found["summeval-consistency"]) == 2


def test_another_split_of_a_subset_is_not_taken_for_it(
    cache: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    rows = parquet(RECORDS["boolq"][0])
    publish(cache, HubFile("google/boolq", "data/train-00000-of-00001.parquet"), rows)
    with pytest.raises(DataError, match=r"boolq: google/boolq/data/validation-\S+ could not be"):
        S1Bench(subsets=["boolq"], rows="hub", definitions="local").load()


def test_every_external_set(cache: Path) -> None:
    def table(columns: list[str], rows: list[list[Any]]) -> bytes:
        out = io.StringIO(newline="")
        csv.writer(out).writerows([columns, *rows])
        return out.getvalue().encode()

    pair = {"promptID": 1, "pairID": "1e", "premise": " p", "hypothesis": "h", "label": 0}
    intents = [f"intent_{n}" for n in range(12)]
    contents = {
        "support_intents": table(
            ["flags", "instruction", "category", "intent", "response"],
            [["B", f"please {intent}", "ORDER", intent, "Sure."] for intent in intents],
        ),
        "mnli_mismatched": parquet([pair]),
        "toxic_chat": table(
            ["conv_id", "user_input", "model_output", "human_annotation", "toxicity"],
            [["c1", "hello,\nyou", "hi", "True", "0"], ["c2", "bad", "no", "True", "1"]],
        ),
        "yelp_stars": parquet([{"label": n, "text": f"stars {n}"} for n in range(5)]),
    }
    assert set(contents) == set(SOURCES)
    for name, data in contents.items():
        publish(cache, SOURCES[name].file, data)
    suite = External().load()
    golds = {row.id.removeprefix("external/"): gold(row) for row in suite.rows}
    assert golds == {
        **{f"support_intents/bitext-{n}": intent for n, intent in enumerate(intents)},
        "mnli_mismatched/mnli-1e": "entailment",
        "toxic_chat/toxic_chat-c1": "false",
        "toxic_chat/toxic_chat-c2": "true",
        **{f"yelp_stars/yelp-{n}": str(n) for n in range(5)},
    }
    assert {each["word"] for each in suite.facts["sources"].values()} == {"rebuilt"}


def test_a_set_that_is_not_there_is_missing_and_the_others_are_read(cache: Path) -> None:
    publish(cache, SOURCES["yelp_stars"].file, parquet([{"label": 0, "text": "bad"}]))
    facts = External().load().facts["sources"]
    assert facts["yelp_stars"]["n"] == 1
    assert facts["toxic_chat"]["word"] == "missing"
    assert "could not be fetched" in facts["toxic_chat"]["reason"]
    assert "\n" not in facts["toxic_chat"]["reason"]
