"""Sources read from a hub: a stand-in for `datasets` with one small set per repository, columns as there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from reflex.benchmarks.external import SOURCES as EXTERNAL
from reflex.contract import option_keys
from reflex.data.augment import AugmentConfig, canonical_row, training_row
from reflex.data.mixture import MixtureConfig, load_mixture
from reflex.data.sources import base, source, source_names
from reflex.data.sources.labels import BANKING77, CLINC, GOEMOTIONS
from reflex.errors import DataError
from reflex.loading import compose

HUB = [name for name in source_names() if source(name).hub]


class Classes:
    """As datasets.ClassLabel: rows hold places in `names`."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)


class Rows(list):
    """As datasets.Dataset, of which sources use the rows, `features` and `select`."""

    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any] | None = None) -> None:
        super().__init__(rows)
        self.features = {**dict.fromkeys(rows[0], None), **(features or {})}

    def select(self, places: list[int]) -> Iterator[dict[str, Any]]:
        return (self[place] for place in places)


def rows(count: int = 1, features: dict[str, Any] | None = None, /, **fields: Any) -> Rows:
    """`count` copies; a text gets the row's number."""
    made = []
    for n in range(count):
        numbered = {k: f"{v} {n}" if isinstance(v, str) else v for k, v in fields.items()}
        made.append({**numbered, **{k: v for k, v in fields.items() if k in FIXED}})
    return Rows(made, features)


FIXED = {"answer", "answerKey", "correct_answer", "category", "fever_gold_label", "hallucination"}
NLI = Classes("entailment", "neutral", "contradiction")
LETTERED = {"choices": {"text": ["one", "two", "three"], "label": ["A", "B", "C"]}}
MMLU = {"subject": "law", "choices": ["one", "two", "three", "four"]}
FLAGS = dict.fromkeys(("S", "H", "V", "HR", "SH", "S3", "H2", "V2"), 0)
RATED = [{"response": "it is", "fine-grained_score": 4.25}] * 2
SCIQ = {f"distractor{n}": f"wrong {n}" for n in (1, 2, 3)}
DBPEDIA = Classes("Company", "EducationalInstitution", "Artist")

SETS: dict[str, Rows] = {
    "fancyzhx/ag_news": rows(
        1, {"label": Classes("World", "Sports", "Business", "Sci/Tech")}, text="goal", label=1
    ),
    "facebook/anli": rows(1, {"label": NLI}, premise="p", hypothesis="h", label=2),
    "allenai/ai2_arc": rows(id="arc", question="q", answerKey="C", **LETTERED),
    "legacy-datasets/banking77": rows(1, {"label": Classes(*BANKING77)}, text="card", label=11),
    "PKU-Alignment/BeaverTails": rows(prompt="p", response="r", is_safe=False),
    "clinc/clinc_oos": rows(
        1, {"intent": Classes(*CLINC)}, text="call mum", intent=CLINC.index("oos")
    ),
    "tau/commonsense_qa": rows(id="csqa", question="q", answerKey="A", **LETTERED),
    "fancyzhx/dbpedia_14": rows(1, {"label": DBPEDIA}, title="t", content=" text", label=2),
    "dair-ai/emotion": rows(
        1,
        {"label": Classes("sadness", "joy", "love", "anger", "fear", "surprise")},
        text="i am",
        label=4,
    ),
    "google-research-datasets/go_emotions": Rows(
        [{"text": "a", "labels": [27], "id": "x"}, {"text": "b", "labels": [1, 2], "id": "y"}],
        {"labels": SimpleNamespace(feature=Classes(*sorted(GOEMOTIONS)))},
    ),
    "pminervini/HaluEval": rows(user_query="q", chatgpt_response="r", hallucination="no"),
    "tdavidson/hate_speech_offensive": rows(
        tweet="t", hate_speech_count=0, offensive_language_count=2, neither_count=1
    ),
    "stanfordnlp/imdb": rows(1, {"label": Classes("neg", "pos")}, text="film", label=1),
    "TIGER-Lab/MMLU-Pro": Rows(
        [
            {
                "question": "q",
                "options": ["a", "b"],
                "answer_index": 1,
                "category": "law",
                "src": src,
            }
            for src in ("stemez", "ori_mmlu-law")
        ]
    ),
    "cais/mmlu": rows(1, {"answer": Classes(*"ABCD")}, question="q", answer=2, **MMLU),
    "SetFit/mrpc": rows(text1="a", text2="b", label=1),
    "pietrolesci/nli_fever": rows(premise="c", hypothesis="e", fever_gold_label="REFUTES", label=1),
    "mmathys/openai-moderation-api-evaluation": Rows(
        [{"prompt": "a", **FLAGS, "SH": 1}, {"prompt": "b", **FLAGS, "S3": 1, "S": 1}]
    ),
    "allenai/openbookqa": rows(id="7", question_stem="q", answerKey="B", **LETTERED),
    "tasksource/parade": Rows([{"Definition1": "a", "Definition2": "b", "Binary labels": 1}]),
    "SetFit/qqp": rows(text1="a", text2="b", label=0),
    "ehovy/race": rows(article="text", question="q", options=["a", "b", "c", "d"], answer="D"),
    "cornell-movie-review-data/rotten_tomatoes": rows(
        1, {"label": Classes("neg", "pos")}, text="film", label=0
    ),
    "allenai/sciq": rows(question="q", correct_answer="right", support="so it is", **SCIQ),
    "benayas/snips": rows(1, text="play", category="PlayMusic"),
    "stanfordnlp/snli": Rows(
        [{"premise": "p", "hypothesis": f"h{n}", "label": n} for n in (0, -1)], {"label": NLI}
    ),
    "SetFit/sst5": rows(text="fine", label=3, label_text="positive"),
    "ChilleD/StrategyQA": rows(question="q", facts="One fact.", answer=True),
    "lmsys/toxic-chat": rows(user_input="hello", toxicity=0),
    "toxigen/toxigen-data": rows(text="they", toxicity_human=4.2),
    "openbmb/UltraFeedback": rows(instruction="do", completions=RATED),
    "Yelp/yelp_review_full": rows(
        1,
        {"label": Classes("1 star", "2 star", "3 stars", "4 stars", "5 stars")},
        text="food",
        label=1,
    ),
    "fancyzhx/yelp_polarity": rows(1, {"label": Classes("1", "2")}, text="food", label=1),
}
ANSWERS: dict[str, dict[str, str]] = {
    "ag_news": {"topic": "Sports"},
    "anli": {"relation": "REFUTES", "holds": "false"},
    "arc_easy": {"answer": "three"},
    "banking77": {"intent": "card_acceptance"},
    "beavertails": {"harmful": "true"},
    "clinc_oos": {"intent": "oos"},
    "commonsense_qa": {"answer": "one"},
    "dbpedia_14": {"kind": "Artist"},
    "emotion": {"emotion": "fear"},
    "goemotions": {"emotion": "surprise"},
    "halueval": {"invented": "false"},
    "hate_offensive": {"kind": "offensive", "offensive": "true"},
    "imdb": {"positive": "true", "sentiment": "positive"},
    "mmlu_pro": {"answer": "b"},
    "mmlu_validation": {"answer": "three"},
    "mrpc": {"same": "true"},
    "nli_fever": {"relation": "REFUTES", "holds": "false"},
    "openai_moderation": {"flag": "true"},
    "openbookqa": {"answer": "two"},
    "openbookqa_yesno": {},
    "parade": {"same": "true"},
    "qqp": {"same": "false"},
    "race": {"answer": "d"},
    "race_yesno": {},
    "rotten_tomatoes": {"positive": "false", "sentiment": "negative"},
    "sciq": {"answer": "right"},
    "sciq_yesno": {},
    "snips": {"intent": "PlayMusic"},
    "snli": {"relation": "entailment", "holds": "true"},
    "sst5": {"sentiment": "3"},
    "strategyqa": {"answer": "true"},
    "toxic_chat": {"toxic": "false"},
    "toxigen": {"toxic": "true"},
    "ultrafeedback": {"quality": "3"},
    "yelp_full": {"stars": "1"},
    "yelp_polarity": {"positive": "true", "sentiment": "positive"},
}
"""What the one usable row of each says; of hate_offensive the likelier answer."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rows]:
    """`datasets.load_dataset` over a copy of `SETS`, which a test may change."""
    sets = dict(SETS)

    def load_dataset(path: str, config: str | None, *, split: str, revision: str | None) -> Rows:
        if path not in sets:
            raise FileNotFoundError(f"Dataset '{path}' doesn't exist\non the hub")
        return sets[path]

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return sets


@pytest.mark.parametrize("name", HUB)
def test_a_row_of_the_hub_becomes_a_row_with_its_answer(
    name: str, hub: dict[str, Rows], tmp_path: Path
):
    each = source(name)
    found = each.items(tmp_path)
    assert len(found) == len(each.hub)  # one usable row in each set of them
    split, item = found[0]
    row = canonical_row(item, name, each.family, split)
    for key, answer in ANSWERS[name].items():
        label = row.labels[key]
        assert tuple(label) == option_keys(row.questions[key])
        assert max(label, key=label.__getitem__) == answer
    drawn = training_row(item, f"{item.id}#0", name, each.family, AugmentConfig())
    assert all(sum(label.values()) == pytest.approx(1) for label in drawn.labels.values())


def test_the_questions_that_any_text_answers_say_so(hub: dict[str, Rows], tmp_path: Path):
    declared = {
        f"{name}/{key}"
        for name in HUB
        for key, ask in source(name).items(tmp_path)[0][1].asks.items()
        if not ask.abstains
    }
    assert declared == {
        *("ag_news/topic", "dbpedia_14/kind", "sst5/sentiment", "yelp_full/stars"),
        *("emotion/emotion", "goemotions/emotion"),
        *("imdb/positive", "imdb/sentiment", "rotten_tomatoes/positive"),
        *("rotten_tomatoes/sentiment", "yelp_polarity/positive", "yelp_polarity/sentiment"),
        *("hate_offensive/kind", "hate_offensive/offensive", "openai_moderation/flag"),
        *("toxic_chat/toxic", "toxigen/toxic", "beavertails/harmful"),
    }


def test_names_and_roles_of_the_hub(hub: dict[str, Rows], tmp_path: Path):
    hub["dair-ai/emotion"] = rows(200, hub["dair-ai/emotion"].features, text="i am", label=4)
    counts = Counter(split for split, _ in source("emotion").items(tmp_path))
    assert counts["report"] == 200  # the official test split alone
    assert 200 < counts["fit"] < 240  # the official validation split, and some of train
    hub["cais/mmlu"] = rows(200, hub["cais/mmlu"].features, question="q", answer=2, **MMLU)
    assert {split for split, _ in source("mmlu_validation").items(tmp_path)} >= {"train", "report"}
    parts = source("strategyqa").items(tmp_path)[0][1].states[0]
    assert parts == {"passage": "One fact. 0", "question": "q 0"}


def test_a_hub_row_without_a_field_is_named(hub: dict[str, Rows], tmp_path: Path):
    hub["SetFit/qqp"] = rows(3, text1="a", label=0)
    with pytest.raises(DataError, match=r"source qqp: SetFit/qqp/train, row 0: .*'sentence_2'"):
        source("qqp").items(tmp_path)


def test_of_a_large_set_some_rows_are_drawn_by_hash(
    hub: dict[str, Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hub["SetFit/qqp"] = rows(1000, text1="a", text2="b", label=0)
    whole = [item.id for _, item in source("qqp").items(tmp_path)]
    monkeypatch.setattr(base, "HUB_ROWS", 100)
    some = [item.id for _, item in source("qqp").items(tmp_path)]
    assert len(whole) == 1000
    assert 70 < len(some) < 130
    assert some == [each for each in whole if each in set(some)]
    assert some != whole[: len(some)]


def test_recasts_ask_one_question_and_split_as_their_source(hub: dict[str, Rows], tmp_path: Path):
    hub["ehovy/race"] = Rows(
        [
            {"article": f"text {n}", "question": "q", "options": [f"{n}", "b", "c"], "answer": "A"}
            for n in range(100)
        ]
    )
    recast = source("race_yesno").items(tmp_path)
    assert {tuple(item.asks) for _, item in recast} == {("check",)}
    assert {item.asks["check"].label for _, item in recast} == {"true", "false"}
    assert [(split, item.group) for split, item in recast] == [
        (split, item.group) for split, item in source("race").items(tmp_path)
    ]
    config = MixtureConfig(name="x", rows=10, sources={"race": 1.0, "race_yesno": 1.0})
    assert {pool.kind for pool in load_mixture(config, tmp_path).pools.values()} == {
        "choice",
        "noul",
    }


@pytest.mark.parametrize("name", HUB)
def test_a_set_that_is_nowhere_is_named_in_one_line(
    name: str, hub: dict[str, Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.clear()
    config = MixtureConfig(name="x", rows=10, sources={name: 1.0})
    path = source(name).hub[0].path
    with pytest.raises(DataError) as caught:
        load_mixture(config, tmp_path)
    assert str(caught.value) == (
        f"source {name}: no file below {tmp_path}, and {path} cannot be read from the hub: "
        f"Dataset '{path}' doesn't exist on the hub"
    )
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=rf"source {name}: .*REFLEX_DATA.*\[hub\] to read {path}"):
        load_mixture(config, tmp_path)


def test_broad_is_every_source_but_families_of_the_external_sets():
    broad = compose(["mixture=broad"]).mixture
    assert set(broad.sources) == set(source_names()) - {"toxic_chat", "yelp_full"}
    assert {source(name).hub[0].path for name in ("toxic_chat", "yelp_full")} <= {
        each.file.repo for each in EXTERNAL.values()
    }
    assert set(broad.sources.values()) == {1.0}
