"""Augmentation by value: rates within a stated tolerance, the right answer always kept, votes carried through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from reflex.contract import Choice, Noul, option_keys
from reflex.data.augment import AugmentConfig, training_row
from reflex.data.rows import Row
from reflex.data.sources import Ask, Item, source
from reflex.data.sources.base import OptionSet

ROWS = 600
NEAR = 0.06
"""Three standard errors of a rate over 600 draws: 3 · sqrt(.25 / 600)."""

NOTHING = AugmentConfig(
    paraphrase=0, negate=0, subsample=0, shuffle=0, drop_descriptions=0, restate=0,
    several=0, abstain=0, large_full=1,
)  # fmt: skip


def described(count: int) -> OptionSet:
    return {f"l{i}": (f"label {i}", f"what {i} means") for i in range(count)}


def choice(gold: int, count: int = 8, *, large: bool = False) -> Ask:
    return Ask(
        "choice", ("Which?", "Which one is it?"), f"l{gold}", (described(count),), large=large
    )


def noul(label: str) -> Ask:
    criteria: OptionSet = {"true": ("", "it is so"), "false": ("", "it is not so")}
    return Ask("noul", ("Is it?",), label, (criteria,), negated=("Is it not?",))


def drawn(asks: Callable[[int], dict[str, Ask]], **changes: float | int) -> Iterator[Row]:
    """`ROWS` training rows, each of an item of its own; nothing is augmented but what `changes` names."""
    config = AugmentConfig(**{**vars(NOTHING), **changes})
    for i in range(ROWS):
        item = Item(f"s/{i}", (f"state {i}", {"text": f"state {i}"}), asks(i))
        yield training_row(item, f"s/{i}#0.0", "s", "intent", config)


def rate(found: Sequence[bool]) -> float:
    assert len(found) == ROWS
    return sum(found) / ROWS


def asked(row: Row) -> Choice:
    question = row.questions["q"]
    assert isinstance(question, Choice)
    return question


def test_without_augmentation_a_row_is_the_canonical_one() -> None:
    for i, row in enumerate(drawn(lambda i: {"q": choice(i % 8)})):
        assert row.state == f"state {i}"
        assert asked(row) == Choice(instructions="Which?", criteria=dict(described(8).values()))
        assert row.labels["q"] == {f"label {k}": float(k == i % 8) for k in range(8)}


@pytest.mark.parametrize("wanted", [0.2, 0.7])
def test_descriptions_are_dropped_all_at_once_at_their_rate(wanted: float) -> None:
    dropped = []
    for row in drawn(lambda i: {"q": choice(i % 8)}, drop_descriptions=wanted):
        texts = asked(row).criteria
        assert list(texts) == [f"label {k}" for k in range(8)]
        assert set(texts.values()) in ({None}, {f"what {k} means" for k in range(8)})
        dropped.append(None in texts.values())
    assert rate(dropped) == pytest.approx(wanted, abs=NEAR)


def test_criteria_of_yes_and_no_are_dropped_at_the_same_rate() -> None:
    bare = [
        isinstance(question := row.questions["q"], Noul) and question.criteria is None
        for row in drawn(lambda i: {"q": noul("true")}, drop_descriptions=0.2)
    ]
    assert rate(bare) == pytest.approx(0.2, abs=NEAR)


def test_options_are_shuffled_at_their_rate_and_the_right_one_lies_anywhere() -> None:
    moved, places = [], []
    for row in drawn(lambda i: {"q": choice(0)}, shuffle=0.5):
        keys = list(option_keys(asked(row)))
        assert sorted(keys) == [f"label {k}" for k in range(8)]
        assert list(row.labels["q"]) == keys
        assert row.labels["q"]["label 0"] == 1.0
        assert asked(row).criteria["label 3"] == "what 3 means"
        moved.append(keys != sorted(keys))
        places.append(keys.index("label 0"))
    assert rate(moved) == pytest.approx(0.5, abs=NEAR)
    for place in range(1, 8):  # a shuffled eighth of one half each
        assert rate([at == place for at in places]) == pytest.approx(1 / 16, abs=0.03)


def test_negation_at_its_rate_flips_label_and_criteria() -> None:
    flipped = []
    for i, row in enumerate(drawn(lambda i: {"q": noul("true" if i % 3 else "false")}, negate=0.4)):
        question = row.questions["q"]
        assert isinstance(question, Noul)
        assert question.criteria is not None
        negated = question.instructions == "Is it not?"
        assert negated or question.instructions == "Is it?"
        texts = (question.criteria.true, question.criteria.false)
        assert texts == (("it is not so", "it is so") if negated else ("it is so", "it is not so"))
        right = "true" if bool(i % 3) is not negated else "false"
        assert row.labels["q"] == {key: float(key == right) for key in ("true", "false")}
        flipped.append(negated)
    assert rate(flipped) == pytest.approx(0.4, abs=NEAR)


def test_several_questions_share_a_state_at_their_rate() -> None:
    together, first = [], []
    for i, row in enumerate(
        drawn(lambda i: {"a": choice(1), "b": noul("true"), "c": choice(2)}, several=0.3)
    ):
        assert row.state == f"state {i}"
        assert set(row.questions) in ({"a"}, {"b"}, {"c"}, {"a", "b", "c"})
        assert list(row.labels) == list(row.questions)
        together.append(len(row.questions) == 3)
        first.append(next(iter(row.questions)))
    assert rate(together) == pytest.approx(0.3, abs=NEAR)
    for name in "abc":  # the one that is left, and the one that comes first, is any of them
        assert rate([each == name for each in first]) == pytest.approx(1 / 3, abs=NEAR)


def test_a_large_taxonomy_is_cut_at_its_rate_within_bounds_and_keeps_the_right_one() -> None:
    sizes = []
    for i, row in enumerate(
        drawn(
            lambda i: {"q": choice(i % 77, 77, large=True)},
            large_full=0.5, large_min=15, large_max=60, subsample=1.0,
        )
    ):  # fmt: skip
        keys = list(option_keys(asked(row)))
        assert keys == sorted(keys, key=lambda key: int(key.removeprefix("label ")))
        assert row.labels["q"] == {key: float(key == f"label {i % 77}") for key in keys}
        assert sum(row.labels["q"].values()) == 1
        sizes.append(len(keys))
    cut = [size for size in sizes if size < 77]
    assert rate([size < 77 for size in sizes]) == pytest.approx(0.5, abs=NEAR)
    assert min(cut) == 15
    assert max(cut) == 60
    assert sum(cut) / len(cut) == pytest.approx(37.5, abs=3)


def test_a_small_set_is_cut_at_its_rate_to_two_or_more_with_the_right_one() -> None:
    sizes = []
    for i, row in enumerate(drawn(lambda i: {"q": choice(i % 8)}, subsample=0.3, large_full=0.0)):
        assert row.labels["q"][f"label {i % 8}"] == 1.0
        sizes.append(len(asked(row).criteria))
    assert rate([size < 8 for size in sizes]) == pytest.approx(0.3, abs=NEAR)
    assert {size for size in sizes if size < 8} == set(range(2, 8))


def test_half_of_what_is_kept_is_named_like_the_right_answer() -> None:
    names = {f"card {i}": (f"card {i}", None) for i in range(10)}
    names |= {f"loan {i}": (f"loan {i}", None) for i in range(10, 77)}
    ask = Ask("choice", ("Which?",), "card 3", (names,), large=True)
    for row in drawn(lambda _: {"q": ask}, large_full=0.0, large_min=15, large_max=15):
        keys = option_keys(asked(row))
        assert len(keys) == 15
        assert "card 3" in keys
        assert sum(key.startswith("card ") for key in keys) >= 1 + 14 // 2


def test_a_restated_state_at_its_rate() -> None:
    """Half of what may be restated is: the draw is among all states, the canonical one included."""
    restated = [
        isinstance(row.state, dict) for row in drawn(lambda _: {"q": noul("true")}, restate=0.8)
    ]
    assert rate(restated) == pytest.approx(0.4, abs=NEAR)


# -- soft labels -----------------------------------------------------------------------------------


def rows_of(name: str, raw: dict[str, object], **changes: float) -> list[Row]:
    item = source(name).item(raw)
    assert item is not None
    config = AugmentConfig(**{**vars(NOTHING), **changes})
    return [training_row(item, f"r#{i}", name, "safety", config) for i in range(100)]


def test_votes_of_hate_offensive_are_the_targets() -> None:
    raw = {"id": 1, "text": "a tweet", "votes": [1, 2, 1]}
    both = dict.fromkeys(("several", "paraphrase", "negate", "shuffle", "subsample"), 0.5)
    seen = set()
    for row in rows_of("hate_offensive", raw, **both):
        for name, question in row.questions.items():
            label = row.labels[name]
            if name == "offensive":
                free = "free" in (question.instructions or "") or "accept" in (
                    question.instructions or ""
                )
                assert label == {"true": 0.25 if free else 0.75, "false": 0.75 if free else 0.25}
                seen.add((name, free))
            else:  # every option has a vote: none may be left out
                shown = {key.replace(" ", "_").split("_")[0]: p for key, p in label.items()}
                assert shown == {"hate": 0.25, "offensive": 0.5, "neither": 0.25}
                seen.add((name, "hate speech" in label))
    assert seen == {("offensive", True), ("offensive", False), ("kind", True), ("kind", False)}


def test_an_option_without_a_vote_may_go_and_the_others_keep_theirs() -> None:
    raw = {"id": 1, "text": "a tweet", "votes": [0, 3, 1]}
    sizes = set()
    for row in rows_of("hate_offensive", raw, subsample=1.0):
        if "kind" in row.questions:
            label = row.labels["kind"]
            assert {key: p for key, p in label.items() if p} == {"offensive": 0.75, "neither": 0.25}
            sizes.add(len(label))
    assert sizes == {2}


def test_ratings_of_feedbackqa_are_the_targets() -> None:
    raw = {"id": 1, "question": "q?", "answer": "a", "distribution": [0, 0.5, 0, 0.5]}
    for row in rows_of("feedbackqa", raw, paraphrase=0.5, drop_descriptions=0.5, shuffle=1.0):
        assert row.labels == {"helpful": {"0": 0.0, "1": 0.5, "2": 0.0, "3": 0.5}}
        assert row.state == {"question": "q?", "answer": "a"}
