"""Sources, splits, mixture and augmentation."""

from __future__ import annotations

import json
import random
import re
import string
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflex.benchmarks.files import local_file
from reflex.contract import Choice, Noul, option_keys
from reflex.data import mixture_files
from reflex.data.augment import (
    ADJACENT,
    AugmentConfig,
    adjacent,
    build,
    canonical_row,
    subsample,
    training_row,
)
from reflex.data.coverage import COMMON, check_coverage
from reflex.data.guard import overlapping_ids
from reflex.data.jsonl import write_lines
from reflex.data.mixture import (
    MixtureConfig,
    Pool,
    apportion,
    load_mixture,
    shares,
    without_shared_texts,
)
from reflex.data.rows import Row, read_jsonl
from reflex.data.sources import Ask, Item, source, source_names
from reflex.data.sources.base import USES, OptionSet, plain
from reflex.data.sources.sentences import negate, numbers, reword, swap_words
from reflex.errors import ConfigError, DataError

LOCAL = tuple(
    name
    for name in source_names()
    if source(name).files or (source(name).derive is not None and name != "human_ratings")
)
"""Sources of local files; human_ratings comes as an asset (tests/test_human_ratings.py)."""


@pytest.fixture
def small_root(tmp_path: Path) -> Path:
    """A data folder with two small sources of the real shape."""
    texts = [f"message {i} about {'joy' if i % 2 else 'fear'}" for i in range(240)]
    labels = ("sadness", "joy", "love", "anger", "fear", "surprise")
    rows = [{"id": f"e{i}", "text": t, "label": labels[i % 6]} for i, t in enumerate(texts)]
    write_lines(tmp_path / "train" / "emotion_train.jsonl", rows[:200])
    write_lines(tmp_path / "train" / "emotion_test.jsonl", rows[200:])
    write_lines(
        tmp_path / "train" / "rotten_tomatoes.jsonl",
        [
            {"id": f"r{i}", "text": t, "label": "pos" if i % 2 else "neg"}
            for i, t in enumerate(texts)
        ],
    )
    return tmp_path


# -- sources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCAL)
def test_every_source_gives_valid_rows_and_no_blocked_name(name: str, data_root: Path):
    each = source(name)
    items = each.items(data_root)
    assert len({item.id for _, item in items}) == len(items)
    for split, item in items[:: max(1, len(items) // 40)]:
        canonical_row(item, name, each.family, split)
        row = training_row(item, f"{item.id}#0", name, each.family, AugmentConfig())
        for question_id, question in row.questions.items():
            assert tuple(row.labels[question_id]) == option_keys(question)
    MixtureConfig(name="x", sources={name: 1.0})
    assert each.family in ADJACENT


def test_sources_the_guard_and_benchmarks_read_the_same_folder(
    small_root: Path, monkeypatch: pytest.MonkeyPatch
):
    write_lines(small_root / "s1bench" / "boolq.jsonl", [{"passage": "message 1 about joy"}])
    monkeypatch.setenv("HOME", str(small_root.parent))
    monkeypatch.setenv("REFLEX_DATA", f"~/{small_root.name}")
    assert len(source("emotion").items()) == 240
    assert overlapping_ids({"a": "message 1 about joy", "b": "other"}) == {"a"}
    assert local_file("s1bench", "boolq.jsonl") == small_root / "s1bench" / "boolq.jsonl"
    monkeypatch.setenv("REFLEX_DATA", str(small_root / "nowhere"))
    for read in (source("emotion").items, lambda: overlapping_ids({}), lambda: local_file("", "")):
        with pytest.raises(DataError, match=r"REFLEX_DATA=.*nowhere is not a folder"):
            read()


PAIR = {"id": "s", "premise": "It rains.", "label": "entailment"}


@pytest.mark.parametrize(
    ("name", "file", "row", "what"),
    [
        ("emotion", "emotion_train", {"id": "e", "label": "joy"}, "KeyError('text')"),
        ("emotion", "emotion_train", ["text"], "TypeError("),
        ("snli", "snli_dev", PAIR, "KeyError('hypothesis')"),
        ("fact_questions", "snli_dev", PAIR, "KeyError('hypothesis')"),  # made of others' rows
    ],
)
def test_a_row_that_is_not_of_its_source_is_named(
    name: str, file: str, row: Any, what: str, tmp_path: Path
):
    path = tmp_path / "train" / f"{file}.jsonl"
    write_lines(path, [row])
    told = f"source {name}: {path}:1: not in the expected form ({what}"
    with pytest.raises(DataError, match=re.escape(told)):
        source(name).items(tmp_path)


@pytest.mark.parametrize("name", source_names())
def test_every_source_states_its_licence_and_what_it_allows(name: str):
    each = source(name)
    assert each.licence
    assert each.use in USES
    words = ("NC", "non-commercial", "academic", "research", "Research", "terms")
    restricted = any(word in each.licence for word in words)
    stated = "unstated" if each.licence == "none stated" else "any"
    assert each.use == ("non-commercial" if restricted else stated)


def test_the_manifest_of_a_mixture_lists_licences_and_rows(small_root: Path):
    config = MixtureConfig(name="x", rows=40, sources={"emotion": 1.0, "rotten_tomatoes": 3.0})
    sources = load_mixture(config, small_root).facts()["sources"]
    assert sum(each["rows"] for each in sources.values()) == 40
    assert {name: each["use"] for name, each in sources.items()} == {
        "emotion": "non-commercial",
        "rotten_tomatoes": "non-commercial",
    }
    assert sources["emotion"]["licence"] == "educational and research use only"


def test_the_card_says_plainly_what_the_weights_were_trained_on():
    from reflex.tasks.release_card import licence_statement

    free = {"snli": {"rows": 300, "use": "any"}, "anli": {"rows": 0, "use": "non-commercial"}}
    assert licence_statement(free).startswith("Every source's licence allows any use")
    mixed = {**free, "anli": {"rows": 90, "use": "non-commercial"}}
    mixed |= {
        "sst5": {"rows": 10, "use": "non-commercial"},
        "parade": {"rows": 100, "use": "unstated"},
    }
    text = licence_statement(mixed)
    assert (
        "non-commercial, academic or research purposes only (100 of 500 rows, 20 %: anli, sst5)"
        in text
    )
    assert "state no licence (100 of 500 rows, 20 %: parade)" in text
    assert "do not use these weights commercially" in text


def shared_evidence(data_root: Path) -> set[str]:
    """Evidence of `fever_adversarial` rows that vitaminc has too."""
    found = [
        {json.loads(line)["evidence"].strip() for line in (data_root / name).open()}
        for name in ("train/fever_adversarial.jsonl", "s1bench/vitaminc_test.jsonl")
    ]
    return found[0] & found[1]


def test_the_46_fever_adversarial_rows_that_share_evidence_are_dropped(data_root: Path):
    each = source("fever_adversarial")
    states: dict[str, Any] = {item.id: item.states[0] for _, item in each.items(data_root)}
    evidence = shared_evidence(data_root)
    sharing = {name for name, state in states.items() if state["evidence"].strip() in evidence}
    assert (len(states), len(sharing)) == (764, 46)
    assert sharing <= overlapping_ids(states, data_root)


def kept_states(data_root: Path) -> str:
    """Every state of every split of what is made of `fever_adversarial`, as one text."""
    names = ("fever_adversarial", "fact_questions", "passage_questions")
    config = MixtureConfig(name="x", rows=50, sources=dict.fromkeys(names, 1.0))
    pools = load_mixture(config, data_root).pools
    # The 46 rows stand on 24 evidences, and passage_questions has one item an evidence.
    assert all(pools[name].overlapping >= 24 for name in names)
    texts = [
        text
        for pool in pools.values()
        for items in pool.items.values()
        for item in items
        for text in (*item.states, *(w for ask in item.asks.values() for w in ask.wordings))
    ]
    return "\n".join(map(str, texts))


def test_no_source_made_of_them_keeps_shared_evidence(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
):
    kept = kept_states(data_root)
    assert not [evidence for evidence in shared_evidence(data_root) if evidence in kept]
    # Without the guard the check above would fail.
    monkeypatch.setattr("reflex.data.mixture.overlapping_ids", lambda states, root: set())
    with pytest.raises(AssertionError):
        kept_states(data_root)


def sides(pools: Mapping[str, Pool]) -> tuple[set[str], set[str]]:
    """Texts of five words or more that are trained on, and that are held out."""
    found: tuple[set[str], set[str]] = (set(), set())
    for pool in pools.values():
        for split, items in pool.items.items():
            for item in items:
                state: Any = item.states[0]
                fields = [state] if isinstance(state, str) else list(state.values())
                texts = {" ".join(text.lower().split()) for text in fields if len(text.split()) > 4}
                found[split != "train"].update(texts)
    return found


@pytest.mark.slow
def test_no_text_is_trained_on_in_one_source_and_held_out_in_another(data_root: Path):
    names = ("anli", "fact_questions", "passage_questions", "mrpc", "word_swaps", "fact_edits")
    pools = {}
    for name in (*names, "rotten_tomatoes", "sst5", "parade"):
        splits: dict[str, list[Item]] = {"train": [], "fit": [], "report": []}
        for split, item in source(name).items(data_root):
            splits[split].append(item)
        pools[name] = Pool(name, "", "noul", False, splits, 0)
    trained, held_out = sides(pools)
    # Two sources hold the same sentences, and pairs of one source share one.
    assert len(trained & held_out) > 200
    trained, held_out = sides(without_shared_texts(pools))
    assert not trained & held_out
    assert len(trained) > 20_000
    assert len(held_out) > 2_000


def test_a_passage_is_in_the_same_split_in_every_source_made_of_it(data_root: Path):
    found: dict[str, set[str]] = {}
    for name in ("anli", "fact_questions", "passage_questions"):
        for split, item in source(name).items(data_root):
            found.setdefault(item.group, set()).add(split)
    assert len(found) > 3_000
    assert {len(splits) for splits in found.values()} == {1}


def test_splits_do_not_depend_on_the_order_or_number_of_rows(small_root: Path):
    before = {item.id: split for split, item in source("rotten_tomatoes").items(small_root)}
    path = small_root / "train" / "rotten_tomatoes.jsonl"
    lines = path.read_text().splitlines()
    random.Random(3).shuffle(lines)
    path.write_text("\n".join(lines[:150]) + "\n")
    after = {item.id: split for split, item in source("rotten_tomatoes").items(small_root)}
    assert after.items() <= before.items()
    assert set(before.values()) == {"train", "fit", "report"}


def test_official_test_rows_are_never_trained_on(data_root: Path):
    for name in ("banking77", "emotion", "clinc_oos", "snips", "sst5"):
        for split, item in source(name).items(data_root):
            official = item.id.split("/")[1].split("-")[1]
            assert split == "report" or official != "test", item.id


# -- edits -----------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_swapped_words_are_the_same_words_in_another_order(seed: int):
    sentence = "The young man gave the red ball to Anna , while Peter watched the old dog ."
    swapped = swap_words(sentence, random.Random(seed))
    assert swapped is not None
    assert swapped != sentence
    assert sorted(swapped.split()) == sorted(sentence.split())


def test_a_pair_joined_by_and_is_not_swapped():
    assert swap_words("There a man and a woman walked .", random.Random(0)) is None


@pytest.mark.parametrize(
    "sentence",
    [
        "There he speaks French, Italian and Spanish .",
        "It is sold in New York, Los Angeles, and Chicago .",
        "They like reading, writing or singing .",
    ],
)
def test_what_stands_in_one_list_or_name_does_not_trade_places(sentence: str):
    assert {swap_words(sentence, random.Random(seed)) for seed in range(20)} == {None}
    assert swap_words("There Anna wrote to Bob .", random.Random(0)) == "There Bob wrote to Anna ."


def edits(rows: Mapping[str, list[dict[str, str]]]) -> list[Mapping[str, Any]]:
    """What fact_edits makes of these rows (file below train/ → rows)."""
    from reflex.data.sources.fact_edits import derive

    return list(derive(lambda name: iter(rows.get(name.removeprefix("train/"), []))))


@pytest.mark.parametrize(
    "number",
    [
        *("more than 258", "at least 258", "over 258", "fewer than about 258", "up to 258"),
        *("larger than the 258", "a maximum of 258", "between 12 and 258", "more than £258"),
        *("258 or more", "258 and over"),
    ],
)
def test_a_bound_is_put_on_no_bound(number: str):
    def claims(number: str) -> list[str]:
        rows = [
            {"premise": f"The site {n} was visited by {number} people from afar that day ."}
            for n in "abcdefghijkl"
        ]
        return [each["claim"] for each in edits({"snli_dev.jsonl": rows})]

    free = claims("258")
    assert len(free) > 12
    assert not any("by 258 people" in claim for claim in free)
    assert all(number in claim for claim in claims(number))


def test_an_unrelated_claim_is_of_no_row_that_shares_a_sentence():
    """Neither the other sentence of a pair, nor, of crossed claims and evidences, one of the same four."""
    pairs: list[dict[str, str]] = []
    crossed: list[dict[str, str]] = []
    group: dict[str, str] = {}
    for letter in string.ascii_lowercase:
        one, two = f"Ada{letter}", f"Bob{letter}"
        pair = [
            f"Long ago {one} wrote the {n} letter to an old friend ." for n in ("first", "last")
        ]
        pairs.append({"sentence_1": pair[0], "sentence_2": pair[1]})
        evidences = [f"In that {n} year {two} was living in the town ." for n in ("first", "last")]
        claims = [f"The {n} house of {two} stands in the old town ." for n in ("red", "blue")]
        crossed += [{"evidence": e, "claim": c} for e in evidences for c in claims]
        group |= dict.fromkeys(pair, one) | dict.fromkeys((*evidences, *claims), two)
    made = edits({"mrpc_train.jsonl": pairs, "fever_symmetric_dev.jsonl": crossed})
    unrelated = [each for each in made if each["label"] == "maybe"]
    assert len(unrelated) > 3
    for each in unrelated:
        assert group[each["evidence"]] != group[each["claim"]]


def test_rewording_and_numbers():
    assert reword("In 1998 , the club moved to Leeds .", random.Random(1)) == (
        "the club moved to Leeds in 1998 ."
    )
    assert reword("Nothing applies here at all", random.Random(0)) is None
    assert [value for *_, value in numbers("It sold 12,500 copies and 3.5 % of 40 shops.")] == [
        12500,
        40,
    ]


@pytest.mark.parametrize(
    ("claim", "opposite"),
    [
        ("Anna was born in Leeds.", "Anna was not born in Leeds."),
        ("The song has been recorded by cats .", "The song has not been recorded by cats ."),
        ("Anna was not born in Leeds.", None),
        ("Nobody is asleep.", None),
        ("The film isn't long.", None),
        ("Some people are sitting.", None),
        ("It was shot only in Montana.", None),
        ("Anna lives in Leeds.", None),
        ("He was late and she was early.", None),
    ],
)
def test_a_claim_is_negated_where_that_reverses_it(claim: str, opposite: str | None):
    assert negate(claim) == opposite


def test_what_a_row_asks_is_held_against_the_benchmarks_too(data_root: Path):
    """Two passages share nothing with a benchmark, but are asked about claims that vitaminc has words of."""
    each = source("passage_questions")
    states = {item.id: item.states[0] for _, item in each.items(data_root)}
    by_state = overlapping_ids(states, data_root)
    pool = load_mixture(MixtureConfig(name="x", rows=50, sources={each.name: 1.0}), data_root).pools
    kept = {item.id for items in pool[each.name].items.values() for item in items}
    dropped = {states[name] for name in states.keys() - kept - by_state if len(states[name]) < 900}
    assert sorted(str(state)[:12] for state in dropped) == ["Gaga began p", "He won his s"]


def test_passages_are_asked_several_questions_each_way(data_root: Path):
    items = [item for _, item in source("passage_questions").items(data_root)]
    labels = [ask.label for item in items for ask in item.asks.values()]
    assert 0.45 < labels.count("true") / len(labels) < 0.55
    assert max(len(item.asks) for item in items) == 4
    cats = "recorded by some talented cats"
    song = next(item for item in items if cats in str(item.states[0]))
    asked = {ask.wordings[0]: ask.label for ask in song.asks.values()}
    assert asked["was I Kissed a Girl recorded by Katy Perry?"] == "false"
    assert asked["was I Kissed a Girl not recorded by Katy Perry?"] == "true"
    assert len({item.states[0] for item in items}) == len(items)  # one item a passage


# -- questions -------------------------------------------------------------------------------------


def noul(label: str) -> Ask:
    sets: tuple[OptionSet, ...] = ({}, {"true": ("", "it is so"), "false": ("", "it is not so")})
    return Ask("noul", ("Is it?",), label, sets, negated=("Is it not?",))


def test_negation_flips_the_label_and_the_descriptions():
    question, label = build(noul("true"), "Is it not?", noul("true").sets[1], negated=True)
    assert isinstance(question, Noul)
    assert question.criteria is not None
    assert question.criteria.true == "it is not so"
    assert label == {"true": 0.0, "false": 1.0}


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.integers(0, 59), st.integers(2, 70), st.integers(0, 99))
def test_subsampling_keeps_the_gold_and_the_order(n: int, gold: int, wanted: int, seed: int):
    labels = [f"label_{i}" for i in range(n)]
    ask = Ask("choice", ("?",), labels[gold % n], (plain(labels),), large=True)
    kept = list(subsample(ask, plain(labels), wanted, random.Random(seed)))
    assert labels[gold % n] in kept
    assert len(kept) == min(n, wanted)
    assert kept == [label for label in labels if label in set(kept)]


def test_held_out_wording_is_canonical_and_only_fit_varies_the_options(data_root: Path):
    each = source("banking77")
    _, item = each.items(data_root)[0]
    report = canonical_row(item, "banking77", "intent", "report")
    question = report.questions["intent"]
    assert isinstance(question, Choice)
    assert len(question.criteria) == 77
    assert question.instructions == item.asks["intent"].wordings[0]
    sizes = set()
    for _, other in each.items(data_root)[:40]:
        row = canonical_row(other, "banking77", "intent", "fit", vary=True)
        varied = row.questions["intent"]
        assert varied.instructions == question.instructions
        sizes.add(len(option_keys(varied)))
    assert min(sizes) <= 8
    assert any(8 < size <= 26 for size in sizes)
    assert max(sizes) == 77


# -- abstention ------------------------------------------------------------------------------------


def items(family: str, count: int = 5) -> list[Item]:
    return [
        Item(
            f"{family}/{i}",
            (f"{family} state {i}",),
            {"q": Ask("choice", ("?",), "a", (plain("abc"),))},
        )
        for i in range(count)
    ]


def abstained(row: Row) -> bool:
    return all(len(set(label.values())) == 1 for label in row.labels.values())


def test_an_abstention_row_has_a_foreign_state_and_a_uniform_target():
    config = AugmentConfig(abstain=1.0)
    donors = items("knowledge")
    row = training_row(items("intent")[0], "r#0", "intent", "intent", config, donors)
    assert row.state in {item.states[0] for item in donors}
    assert abstained(row)
    plainly = training_row(items("intent")[0], "r#0", "intent", "intent", config)
    assert not abstained(plainly)  # nobody to take a state from


def test_a_question_that_can_say_so_itself_does_not_abstain():
    """With NOT ENOUGH INFO on offer a foreign state has a right answer: uniform would be wrong."""
    ask = Ask("choice", ("?",), "yes", (plain(("yes", "no", "maybe")),))
    item = Item("fact/1", ("own state",), {"q": ask})
    config = AugmentConfig(abstain=1.0)
    assert not abstained(training_row(item, "r#0", "fact", "fact", config, items("intent")))


def test_neighbours_are_so_both_ways():
    """A question with its answer may be invented, unsafe or say the same twice: no foreign state there."""
    for family, others in ADJACENT.items():
        assert family in others
        assert all(family in ADJACENT[other] for other in others), family
    assert ADJACENT["quality"] >= {"fact", "safety", "paraphrase"}


def test_no_abstention_state_can_answer_its_question(tmp_path: Path):
    """nli and fact are adjacent: a premise may well say whether a claim is true, and the other way round."""
    numbers = range(240)
    write_lines(
        tmp_path / "train" / "snli_dev.jsonl",
        [
            {
                "id": f"s{i}",
                "premise": f"premise {i}",
                "hypothesis": f"hypothesis {i}",
                "label": ("entailment", "neutral", "contradiction")[i % 3],
            }
            for i in numbers
        ],
    )
    write_lines(
        tmp_path / "train" / "fever_symmetric_dev.jsonl",
        [
            {
                "id": f"f{i}",
                "evidence": f"evidence {i}",
                "claim": f"claim {i}",
                "label": ("SUPPORTS", "REFUTES")[i % 2],
            }
            for i in numbers
        ],
    )
    config = MixtureConfig(
        name="x",
        rows=400,
        sources={"snli": 1.0, "fever_symmetric": 1.0},
        augment=AugmentConfig(abstain=1.0),
    )
    rows = load_mixture(config, tmp_path).train_rows()
    assert not any(abstained(row) for row in rows)


def test_an_abstention_row_whose_state_still_answers_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both faults put back on purpose: families without neighbours, and options that say so themselves."""
    alone = {family: frozenset({family}) for family in ADJACENT}
    with monkeypatch.context() as patch:
        patch.setattr("reflex.data.augment.ADJACENT", alone)
        with pytest.raises(AssertionError):
            test_no_abstention_state_can_answer_its_question(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("reflex.data.augment.UNSETTLED", frozenset())
        with pytest.raises(AssertionError):
            test_a_question_that_can_say_so_itself_does_not_abstain()


# -- mixture ---------------------------------------------------------------------------------------


def test_shares_are_explicit_for_large_taxonomies_and_equal_over_types(data_root: Path):
    config = MixtureConfig(
        name="x",
        rows=1000,
        sources={"banking77": 1, "clinc_oos": 1, "emotion": 1, "ag_news": 3, "mrpc": 1, "sst5": 1},
    )
    mixture = load_mixture(config, data_root)
    found = shares(config, mixture.pools)
    assert found["banking77"] == found["clinc_oos"] == pytest.approx(0.125)
    assert found["mrpc"] == found["sst5"] == pytest.approx(0.25)
    assert found["ag_news"] == pytest.approx(3 * found["emotion"])
    rows = mixture.train_rows()
    counts = Counter(row.source for row in rows)
    assert (
        counts == {name: round(share * 1000) for name, share in found.items()}
        or sum(counts.values()) == 1000
    )
    assert [row.id for row in rows] == [
        row.id for row in load_mixture(config, data_root).train_rows()
    ]
    train_ids = {item.id for pool in mixture.pools.values() for item in pool.items["train"]}
    assert {row.id.split("#")[0] for row in rows} <= train_ids


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sources": {"emotion": float("nan")}}, "sources.emotion=nan: must be a number above 0"),
        ({"sources": {"emotion": float("inf")}}, "sources.emotion=inf: must be a number above 0"),
        ({"type_shares": {"choise": 1.0}}, "type_shares=choise: use one of choice, noul, score"),
        (
            {"type_shares": {"choice": -1.0}},
            "type_shares.choice=-1.0: must be a number of 0 or more",
        ),
        ({"type_shares": {"choice": float("nan")}}, "type_shares.choice=nan: must be a number"),
        ({"max_chars": 0}, "max_chars=0: must be at least 1"),
    ],
)
def test_a_share_that_is_none_names_its_key(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=rf"^mixture\.{re.escape(told)}"):
        MixtureConfig(**{"name": "x", "sources": {"emotion": 1.0}, **change})


def test_types_without_a_share_take_none_and_not_all_may(small_root: Path) -> None:
    both: dict[str, Any] = {"name": "x", "sources": {"emotion": 1.0, "rotten_tomatoes": 1.0}}
    config = MixtureConfig(**both, type_shares={"choice": 0.0})
    mixture = load_mixture(config, small_root)
    assert mixture.shares == {"emotion": 0.0, "rotten_tomatoes": 1.0}
    nothing = MixtureConfig(**both, type_shares={"choice": 0.0, "noul": 0.0})
    with pytest.raises(ConfigError, match=r"^mixture\.type_shares: choice, noul are all the types"):
        shares(nothing, mixture.pools)


def test_a_family_nobody_named_is_adjacent_to_itself(small_root: Path) -> None:
    assert adjacent("intent") == {"intent", "topic"}
    both = {"emotion": 1.0, "rotten_tomatoes": 1.0}
    mixture = load_mixture(MixtureConfig(name="x", rows=20, sources=both), small_root)
    pools = {**mixture.pools, "emotion": replace(mixture.pools["emotion"], family="stance")}
    assert len(replace(mixture, pools=pools).train_rows()) == 20


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=20), st.integers(1, 5000))
def test_apportioned_counts_sum_to_the_total(weights: list[float], total: int):
    wanted = {str(i): w / sum(weights) for i, w in enumerate(weights)}
    counts = apportion(wanted, total)
    assert sum(counts.values()) == total
    assert all(abs(counts[name] - share * total) < 1 for name, share in wanted.items())


def test_coverage_is_checked_both_ways(small_root: Path):
    config = MixtureConfig(name="x", rows=10, sources={"emotion": 1.0})
    pool = load_mixture(config, small_root).pools["emotion"]
    untrained = {
        **pool.items,
        "train": [i for i in pool.items["train"] if i.asks["emotion"].label != "joy"],
    }
    with pytest.raises(DataError, match="'joy' of emotion is never trained"):
        check_coverage(replace(pool, items=untrained))
    unseen = {
        split: [i for i in found if i.asks["emotion"].label != "love"]
        for split, found in pool.items.items()
    }
    with pytest.raises(DataError, match="offers 'love'"):
        check_coverage(replace(pool, items=unseen))
    for split in ("fit", "report"):
        with pytest.raises(DataError, match=f"source emotion: trained, but split {split} has no"):
            check_coverage(replace(pool, items={**pool.items, split: []}))
    nothing: dict[str, list[Item]] = {split: [] for split in pool.items}
    check_coverage(replace(pool, items=nothing))  # its one complaint is that of `counts`


@pytest.mark.parametrize("times", [1, 8])
def test_a_common_label_is_held_out_too(small_root: Path, times: int):
    config = MixtureConfig(name="x", rows=10, sources={"emotion": 1.0})
    pool = load_mixture(config, small_root).pools["emotion"]
    without = {
        split: [*found] * times
        if split == "train"
        else [item for item in found if item.asks["emotion"].label != "joy"]
        for split, found in pool.items.items()
    }
    trained = sum(item.asks["emotion"].label == "joy" for item in without["train"])
    assert (trained >= COMMON) == (times == 8)
    if times == 1:  # a rare label may be missing by chance
        check_coverage(replace(pool, items=without))
        return
    told = f"'joy' of emotion is trained on {trained} items but in no item of splits fit and report"
    with pytest.raises(DataError, match=told):
        check_coverage(replace(pool, items=without))


def test_a_source_without_training_items_is_named_and_may_have_no_share(small_root: Path):
    config = MixtureConfig(name="x", rows=10, sources={"emotion": 1.0}, max_chars=10)
    mixture = load_mixture(config, small_root)  # held-out rows may come from it all the same
    told = "source emotion: no training items are left (240 are longer than mixture.max_chars=10, 0 overlap"
    for asked in (mixture.facts, mixture.train_rows):
        with pytest.raises(DataError, match=re.escape(told)):
            asked()
    sources = {"emotion": 1.0, "rotten_tomatoes": 1.0}
    both = load_mixture(MixtureConfig(name="x", rows=10, sources=sources), small_root)
    left = {**both.pools["emotion"].items, "train": []}
    pools = {**both.pools, "emotion": replace(both.pools["emotion"], items=left)}
    aside = replace(both, pools=pools, shares={"emotion": 0.0, "rotten_tomatoes": 1.0})
    assert aside.facts()["sources"]["emotion"]["times_seen"] == 0
    assert {row.source for row in aside.train_rows()} == {"rotten_tomatoes"}


# -- files -----------------------------------------------------------------------------------------


def test_rows_written_are_rows_read(tmp_path: Path, small_root: Path):
    config = MixtureConfig(name="x", rows=60, sources={"emotion": 1.0, "rotten_tomatoes": 1.0})
    rows = load_mixture(config, small_root).train_rows()
    mixture_files.write_checked(tmp_path / "rows.jsonl", rows)
    assert read_jsonl(tmp_path / "rows.jsonl") == rows


def test_a_question_cache_keyed_by_sorted_options_is_caught(tmp_path: Path, monkeypatch):
    """The fault of a predecessor: equal option sets in another order came back in the first order."""
    first = {"q": {"type": "choice", "criteria": {"b": None, "a": None}}}
    second = {"q": {"type": "choice", "criteria": {"a": None, "b": None}}}
    rows = [
        Row.from_json({"id": i, "state": "s", "questions": q, "labels": {"q": "a"}})
        for i, q in (("1", first), ("2", second))
    ]

    def cached(path: Path) -> list[Row]:
        cache: dict = {}
        found = []
        for row in read_jsonl(path):
            key = tuple(sorted(option_keys(row.questions["q"])))
            question = cache.setdefault(key, row.questions["q"])
            label = {name: row.labels["q"][name] for name in option_keys(question)}
            found.append(replace(row, questions={"q": question}, labels={"q": label}))
        return found

    mixture_files.write_checked(tmp_path / "good.jsonl", rows)
    monkeypatch.setattr(mixture_files, "read_jsonl", cached)
    with pytest.raises(DataError, match="row 2: comes back"):
        mixture_files.write_checked(tmp_path / "bad.jsonl", rows)
    assert not (tmp_path / "bad.jsonl").exists()


def test_rows_of_one_passage_are_one_cluster_and_rows_of_one_state_too() -> None:
    asks = {"q": Ask("noul", ("Is it so?",), "true")}
    items = [
        Item("a/1", ("Claim one. The passage.",), asks, group="The passage."),
        Item("b/1", ("Claim two. The passage.",), asks, group="The passage."),
        Item("a/2", ("Alone.",), asks),
        Item("a/3", ("Alone.",), asks),
    ]
    rows = [canonical_row(item, "a", "fact", "report") for item in items]
    one, other, alone, again = (row.group for row in rows)
    assert one == other
    assert alone == again != one
    trained = training_row(items[1], "b/1#0", "b", "fact", AugmentConfig())
    assert trained.group == one
