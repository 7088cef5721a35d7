"""What never becomes an abstention row: a question that any text answers has an answer over a foreign state."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hydra.utils import instantiate

from reflex.benchmarks.foreign_states import ForeignStates
from reflex.data.augment import AugmentConfig, can_abstain, training_row
from reflex.data.jsonl import write_lines
from reflex.data.sources import Item, source, source_names
from reflex.data.sources.base import Reader
from reflex.errors import DataError
from reflex.loading import compose

ANSWERED_BY_ANY_TEXT = {
    *("ag_news/topic", "emotion/emotion", "goemotions/emotion", "sst5/sentiment"),
    *("hate_offensive/kind", "hate_offensive/offensive", "openai_moderation/flag"),
    *(
        f"{name}/{key}"
        for name in ("imdb", "rotten_tomatoes", "yelp_polarity")
        for key in ("positive", "sentiment")
    ),
}


def first_items(name: str, root: Path, count: int = 3) -> list[Item]:
    made = (source(name).item(raw) for _, raw in islice(source(name)._raw(Reader(root)), 50))
    return [item for item in made if item is not None][:count]


LOCAL = [name for name in source_names() if source(name).files]


def test_the_questions_that_any_text_answers_say_so(data_root: Path):
    declared = {
        f"{name}/{key}"
        for name in LOCAL
        for item in first_items(name, data_root)
        for key, ask in item.asks.items()
        if not ask.abstains
    }
    assert declared == ANSWERED_BY_ANY_TEXT


@pytest.mark.parametrize("name", LOCAL)
def test_they_keep_their_answer_over_every_state(name: str, data_root: Path):
    family = source(name).family
    donors = [Item("other/1", ("What time does the shop open?",), {})]
    config = AugmentConfig(abstain=1.0, several=0.0, restate=0.0)
    for item in first_items(name, data_root):
        for key, ask in item.asks.items():
            alone = Item(item.id, item.states, {key: ask})
            row = training_row(alone, f"{item.id}#0", name, family, config, donors)
            assert (row.state == donors[0].states[0]) == can_abstain(ask)
            answered = f"{name}/{key}" in ANSWERED_BY_ANY_TEXT
            assert not (answered and row.state == donors[0].states[0])


def test_a_question_that_holds_its_claim_is_answered_by_a_foreign_passage(data_root: Path):
    asks = [
        ask for item in first_items("passage_questions", data_root) for ask in item.asks.values()
    ]
    assert asks
    assert not any(can_abstain(ask) for ask in asks)


def test_the_benchmark_asks_what_foreign_states_cannot_answer(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    suite = instantiate(compose(["benchmark=abstention"]).benchmark).load()
    rows = [row for row in suite.rows if row.source.startswith("foreign ")]
    counts = Counter(row.source.removeprefix("foreign ") for row in rows)
    assert set(counts) == {"banking77", "arc_easy", "mrpc", "strategyqa"}
    assert min(counts.values()) >= 50
    asked = {
        f"{row.source.removeprefix('foreign ')}/{key}" for row in rows for key in row.questions
    }
    assert not asked & ANSWERED_BY_ANY_TEXT
    # The states of the others are what is asked about all the same.
    states = {str(row.state): row.source for row in suite.rows if row not in rows}
    assert {states[str(row.state)] for row in rows} >= {"emotion", "ag_news", "rotten_tomatoes"}


def write_claims(path: Path, outcomes: tuple[str, ...]) -> None:
    claims = [(f"{path.stem} evidence {i}", f"claim {i}") for i in range(200)]
    write_lines(
        path,
        [
            {"id": f"{i}", "evidence": text, "claim": claim, "label": outcomes[i % len(outcomes)]}
            for i, (text, claim) in enumerate(claims)
        ],
    )


def test_states_that_cannot_answer_are_asked_nothing_that_any_text_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    folder = tmp_path / "train"
    folder.mkdir()
    texts = [f"number {i} of many texts" for i in range(200)]
    rude = [{"id": f"o{i}", "text": text, "label": i % 2 == 0} for i, text in enumerate(texts)]
    write_lines(folder / "openai_moderation.jsonl", rude)
    write_claims(folder / "anli_test.jsonl", ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"))
    write_claims(folder / "fever_symmetric_dev.jsonl", ("SUPPORTS", "REFUTES"))
    # `anli` can say NOT ENOUGH INFO; `fever_symmetric` cannot.
    sources = ["openai_moderation", "anli", "fever_symmetric"]
    rows = ForeignStates(sources=sources).load().rows
    assert {row.source for row in rows} == {"foreign fever_symmetric"}
    assert {row.state for row in rows} <= set(texts)
    with pytest.raises(DataError, match="not any text answers"):
        ForeignStates(sources=sources[:2]).load()
