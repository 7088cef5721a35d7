"""The guard: every alias is refused by name, clean names pass, overlapping rows are dropped."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.benchmarks.base import fit_names
from reflex.benchmarks.held_out import HeldOut
from reflex.data.contamination import (
    ALIASES,
    SUBSETS,
    assert_clean,
    blocked_subsets,
)
from reflex.data.guard import held_against, overlapping_ids
from reflex.data.mixture import MixtureConfig, mixture_names
from reflex.data.overlap import NGRAM, Index, texts
from reflex.data.sources import source_names
from reflex.errors import ConfigError, ContaminationError, DataError

REFUSED = {
    "tals/vitaminc": "vitaminc-dev",
    "SetFit/amazon_massive_intent_en-US": "massive-en-US",
    "SetFit/amazon_massive_scenario_en-US": "massive-en-US",
    "mteb/amazon_massive_intent": "massive-de-DE",
    "AmazonScience/massive": "massive-en-US",
    "massive-de": "massive-de-DE",
    "slurp": "massive-en-US",
    "hwu64": "massive-en-US",
    "DeepPavlov/hwu64": "massive-de-DE",
    "nvidia/Aegis-AI-Content-Safety-Dataset-1.0": "aegis2",
    "nvidia/Aegis-AI-Content-Safety-Dataset-2.0": "aegis2",
    "aegis": "aegis2",
    "google/boolq": "boolq",
    "super_glue/boolq": "boolq",
    "aps/super_glue": "boolq",
    "SuperGLUE": "boolq",
    "paws-x": "paws",
    "google-research-datasets/paws": "paws",
    "nyu-mll/glue": "multinli",
    "nyu-mll/multi_nli": "multinli",
    "multi-nli": "multinli",
    "mnli": "multinli",
    "glue/mnli": "multinli",
    "glue_mnli_matched": "multinli",
    "nyu-mll/glue:mnli": "multinli",
    "rajpurkar/squad_v2": "squad2",
    "squad": "squad2",
    "SQuAD 2": "squad2",
    "squadv2": "squad2",
    "mteb/summeval": "summeval-relevance",
    "summeval": "summeval-consistency",
    "Civil Comments:train": "civil_comments",
    "google/civil_comments": "civil_comments",
    "jigsaw": "civil_comments",
    "jigsaw_toxicity_pred": "civil_comments",
    "nvidia/HelpSteer2": "helpsteer2",
    "helpsteer": "helpsteer2",
    "qiaojin/PubMedQA": "pubmedqa",
    "bigbio/pubmed_qa": "pubmedqa",
    "data/mirror/boolq/train.jsonl": "boolq",
    "data\\mirror\\BoolQ\\train.jsonl": "boolq",
    "https://huggingface.co/datasets/google/boolq": "boolq",
    "boolq@main": "boolq",
    "exports/s1bench_fast.jsonl": "paws",
    "squadv1.jsonl": "squad2",
    "SQuADv1.1-dev.json": "squad2",
    "vitamincv2": "vitaminc-dev",
    "helpsteerv2": "helpsteer2",
    "BoolQDev.jsonl": "boolq",
    "@boolq/dev.jsonl": "boolq",
    "rows@massive.jsonl": "massive-en-US",
    "glue@mrpc": "multinli",
}
CLEAN = [
    *("snli", "qqp", "banking77", "clinc_oos", "stanfordnlp/imdb", "ag_news", "glue/qqp"),
    *("nyu-mll/glue:sst2", "super_glue/rte", "anli", "fever_adversarial", "snips", "mmlu_pro"),
    *("train/banking77_train.jsonl", "human_ratings", "tickets", "rotten_tomatoes", "nli_fever"),
    *("allenai/openbookqa", "halueval_general", "mrpc", "yelp_polarity", "toxic-chat"),
    *(
        "SNLI",
        "StanfordNLP/IMDB",
        "superGlue/RTE",
        "stanfordnlp/imdb@main",
        "imdb@refs/convert/parquet",
    ),
]


@pytest.mark.parametrize(("name", "subset"), REFUSED.items())
def test_every_alias_is_refused_by_name(name: str, subset: str) -> None:
    assert subset in blocked_subsets(name)
    with pytest.raises(ContaminationError) as caught:
        assert_clean(["snli", name, "qqp"])
    message = str(caught.value)
    assert repr(name) in message
    assert subset in message
    assert "snli" not in message
    assert "\n" not in message


@pytest.mark.parametrize("name", CLEAN)
def test_clean_names_pass(name: str) -> None:
    assert blocked_subsets(name) == ()
    assert assert_clean([name]) == {}


def test_a_name_blocks_its_own_subset_and_no_other() -> None:
    assert blocked_subsets("super_glue/boolq") == ("boolq",)
    assert blocked_subsets("glue/mnli") == ("multinli",)
    assert blocked_subsets("s1bench") == SUBSETS
    for subset in SUBSETS:
        assert subset in blocked_subsets(subset)


@given(
    st.sampled_from(sorted({alias for aliases in ALIASES.values() for alias in aliases})),
    st.sampled_from(["", "org/", "a b/c_d/", "C:\\data\\"]),
    st.sampled_from(["", ":train", ".jsonl", ".train.parquet", "/test.csv.gz", "@abc", "_v2", "2"]),
    st.sampled_from(["-", "_", " "]),
    st.booleans(),
)
def test_organisation_split_case_and_separator_do_not_matter(
    alias: str, before: str, after: str, separator: str, upper: bool
) -> None:
    name = before + alias.replace("-", separator) + after
    assert blocked_subsets(name.upper() if upper else name)


@given(
    st.sampled_from(sorted({(a, s) for s in SUBSETS for a in ALIASES[s]})),
    st.data(),
    st.sampled_from(["", "My", "my_", "2024-"]),
    st.sampled_from(["", "2", "v2", "V1.1", "-v3", "_v2.0", "@main"]),
    st.sampled_from(["", "Dev", "-dev", "_train", " test"]),
    st.sampled_from(["", ".json", ".JSONL", ".tar.gz"]),
    st.sampled_from(["{}", "data/{}/rows.jsonl", "@{}", "rows@{}", "org\\{}", "hf://x/{}:train"]),
)
def test_no_spelling_of_an_alias_passes(alias, data, before, version, after, ending, place) -> None:
    """Whatever its capitals, separators, version, file ending and place; a word glued on begins with a capital."""
    text, subset = alias
    shape = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    word = "".join(c.upper() if up else c for c, up in zip(text, shape, strict=True))
    word = word.replace("-", data.draw(st.sampled_from(["-", "_", "", " "])))
    if before == "My":
        word = word[0].upper() + word[1:]
    if version == "@main":
        after = ""
    name = place.format(f"{before}{word}{version}{after}{ending}")
    assert subset in blocked_subsets(name), name


def test_an_allowed_source_is_named_and_everything_else_still_refused() -> None:
    assert assert_clean(["snli", "google/boolq"], ["Google/BoolQ"]) == {"google/boolq": ["boolq"]}
    with pytest.raises(ContaminationError, match=r"'paws' is paws\."):
        assert_clean(["boolq", "paws"], allow=["boolq"])
    with pytest.raises(ConfigError, match="'mnli' lets no source through"):
        assert_clean(["snli"], allow=["mnli"])


@pytest.mark.parametrize("name", sorted({*SUBSETS, *(n for own in ALIASES.values() for n in own)}))
def test_a_blocked_source_is_refused_by_name_when_a_config_is_read(name: str):
    with pytest.raises(ContaminationError, match=rf"source {name}: .*benchmark=s1bench"):
        MixtureConfig(name="x", sources={"snli": 1.0, name: 1.0})
    with pytest.raises(ContaminationError, match=f"'{name}' is "):
        assert_clean(fit_names(HeldOut(sources=["snli", name])))  # what a calibration is checked by
    with pytest.raises(ContaminationError, match=f"source {name}: "):
        HeldOut(sources=["snli", name]).load()


def test_no_source_goes_by_a_blocked_name_or_repository():
    assert [name for name in source_names() if blocked_subsets(name)] == []
    assert_clean(mixture_names(dict.fromkeys(source_names(), 1.0)))


WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima".split()


def test_the_strongest_reason_a_state_overlaps_for() -> None:
    index = Index(
        [
            {"evidence": "It rained.", "claim": " ".join(WORDS)},
            "The film was praised by critics. It made no money at all.",
        ]
    )
    states: dict[str, Any] = {
        "text": {"evidence": "It rained.", "other": "nothing"},
        "sentence": "We know this: nothing. it made NO money, at all! Sad.",
        "ngram": "so " + " ".join(WORDS[2:10]) + " indeed",
        "seven": "so " + " ".join(WORDS[2:9]) + " indeed",
        "crossing": {"a": " ".join(WORDS[:4]), "b": " ".join(WORDS[4:8])},
        "short": "Yes. It rained.",
    }
    assert {name: index.reason(state) for name, state in states.items()} == {
        **{name: name for name in ("text", "sentence", "ngram")},
        **dict.fromkeys(("seven", "crossing", "short")),
    }
    assert Index([]).reason(" ".join(WORDS)) is None


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), st.data())
def test_ngrams_agree_with_a_plain_set(words: list[str], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=40))

    def runs(sequence: list[str]) -> set[tuple[str, ...]]:
        count = len(sequence) - NGRAM + 1
        return {tuple(sequence[i : i + NGRAM]) for i in range(count)}

    index = Index([" ".join(words)])
    assert index._shares_ngram(" ".join(other)) is bool(runs(words) & runs(other))


def test_local_files_of_the_external_sets_are_held_against_items(tmp_path: Path) -> None:
    (tmp_path / "external").mkdir()
    row = {"id": "t1", "text": " ".join(WORDS), "label": True}
    (tmp_path / "external" / "toxic_chat.jsonl").write_text(json.dumps(row) + "\n")
    states = {"shared": {"message": " ".join(WORDS[:9])}, "other": "Nothing of that kind."}
    assert overlapping_ids(states, tmp_path) == {"shared"}
    assert held_against(tmp_path) == {"external/toxic_chat.jsonl": 1}


def test_a_benchmark_row_that_is_no_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "s1bench").mkdir()
    (tmp_path / "s1bench" / "boolq.jsonl").write_text('{"text": "a"}\n[1,2]\n')
    with pytest.raises(DataError, match=r"boolq\.jsonl:2: a row must be a JSON object"):
        overlapping_ids({"a": "b"}, tmp_path)


def test_texts_of_any_state() -> None:
    state = {"a": " x ", "b": ["y", {"c": "z", "n": 3}], "d": ""}
    assert list(texts(state)) == ["x", "y", "z"]


def test_fever_adversarial_shares_46_evidences_with_vitaminc(data_root: Path) -> None:
    def states(name: str) -> list[dict[str, str]]:
        lines = (data_root / name).read_text(encoding="utf-8").splitlines()
        return [{key: raw[key] for key in ("evidence", "claim")} for raw in map(json.loads, lines)]

    fever, vitaminc = states("train/fever_adversarial.jsonl"), states("s1bench/vitaminc_test.jsonl")
    start = time.perf_counter()
    index = Index(vitaminc)
    found = Counter(index.reason(state) for state in fever)
    assert time.perf_counter() - start < 5
    assert found == {"text": 46, "sentence": 4, "ngram": 3, None: 711}
