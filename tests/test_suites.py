"""Tickets, external sets, task files, combined suites, and the export that writes any of them."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import instantiate
from omegaconf import OmegaConf

from reflex.benchmarks import files
from reflex.benchmarks.base import Suite
from reflex.benchmarks.combined import Combined
from reflex.benchmarks.external import SOURCES, WAYS, External
from reflex.benchmarks.mmlu import MMLU
from reflex.benchmarks.s1bench import S1Bench
from reflex.benchmarks.task_file import TaskFile, read_tasks
from reflex.benchmarks.tickets import Tickets, cannot_detect, half_width
from reflex.benchmarks.words import combined, sources_of, word_of
from reflex.config import register
from reflex.data.jsonl import write_lines
from reflex.data.rows import items_sha256, rows_sha256
from reflex.errors import ConfigError, DataError
from reflex.tasks.export import Export
from tests.test_human_ratings import asset  # noqa: F401  (a fixture)

NAMES = ["mmlu", "s1bench", "s1bench_fast", "mmlu_s1bench", "external", "tickets", "task_file"]


@pytest.mark.parametrize("name", NAMES)
def test_every_suite_composes_and_refuses_a_misspelt_key(name: str, repo: Path) -> None:
    register()
    with initialize_config_dir(str(repo / "conf"), version_base=None):
        cfg = compose("config", overrides=[f"benchmark={name}", "benchmark.limit=3"])
        assert instantiate(cfg.benchmark).limit == 3
        with pytest.raises(Exception, match="limits"):
            compose("config", overrides=[f"benchmark={name}", "benchmark.limits=3"])


# --- tickets ------------------------------------------------------------------------------------


def test_tickets_hold_three_kinds_of_question_with_balanced_labels() -> None:
    suite = Tickets().load()
    assert len(suite.rows) == 24
    questions = suite.rows[0].questions
    assert [each.type for each in questions.values()] == ["choice", "score", "noul"]
    gold = {
        name: Counter(max(row.labels[name], key=row.labels[name].get) for row in suite.rows)  # type: ignore[arg-type]
        for name in questions
    }
    assert sorted(gold["team"].values()) == [4, 5, 5, 5, 5]
    assert gold["urgency"] == {"0": 5, "1": 7, "2": 7, "3": 5}
    assert gold["refund"] == {"true": 10, "false": 14}
    states = [json.dumps(row.state) for row in suite.rows]
    assert len(set(states)) == 24
    part = Tickets(limit=5).load()
    assert len(part.rows) == 5
    assert [word_of(each.facts["sources"]["tickets"]) for each in (suite, part)] == [
        "exact",
        "exact, 5 of 24",
    ]


def test_tickets_say_what_they_cannot_detect() -> None:
    assert half_width(24) == pytest.approx(0.160, abs=5e-4)
    assert half_width(250) == pytest.approx(0.050, abs=5e-4)
    assert half_width(1200) == pytest.approx(0.023, abs=5e-4)
    note = Tickets().load().facts["notes"]["size"]
    assert note == cannot_detect(24)
    assert "±16 points" in note
    assert "not at all when they disagree on 15% of the tickets" in note


# --- external -----------------------------------------------------------------------------------


def _lines(path: Path, rows: list[Any]) -> Path:
    write_lines(path, rows)
    return path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    folder = tmp_path / "external"
    intents = [f"intent_{n}" for n in range(20)]
    _lines(
        folder / "support_intents.jsonl",
        [{"id": f"b{n}", "text": f"text {n}", "label": intents[n % 20]} for n in range(400)],
    )
    _lines(
        folder / "mnli_mismatched.jsonl",
        [
            {"id": f"m{n}", "premise": f"p{n}", "hypothesis": "h", "label": "neutral"}
            for n in range(9)
        ],
    )
    _lines(
        folder / "toxic_chat.jsonl",
        [{"id": f"t{n}", "text": f"x{n}", "label": n == 0} for n in range(10)],
    )
    return tmp_path


def test_external_sets_from_local_files(root: Path) -> None:
    suite = External().load()
    sources = suite.facts["sources"]
    assert {name: each["n"] for name, each in sources.items()} == {
        "support_intents": 300,
        "mnli_mismatched": 9,
        "toxic_chat": 10,
        "yelp_stars": 0,
    }
    assert sources["yelp_stars"]["word"] == "missing"
    assert suite.rows == External().load().rows
    assert len(External(limit=4).load().rows) == 12
    assert {row.split for row in suite.rows} == {"report"}


def test_external_rows_that_are_not_the_hubs_are_a_stand_in(root: Path, tmp_path: Path) -> None:
    """Nothing shows that they are the set's, wherever the file lies."""
    mine = _lines(tmp_path / "mine.jsonl", [{"id": "a", "text": "x", "label": True}])
    given = External(sets=["toxic_chat"], files={"toxic_chat": str(mine)})
    for suite in (given.load(), External(sets=["toxic_chat"]).load()):
        source = suite.facts["sources"]["toxic_chat"]
        assert word_of(source) == "stand-in"
        assert source["reason"].endswith("of which nothing shows that they are the set's")


def test_pairs_about_one_premise_are_one_group(root: Path) -> None:
    path = root / "external" / "mnli_mismatched.jsonl"
    row = {"id": "m9", "premise": "p0", "hypothesis": "another", "label": "entailment"}
    path.write_text(path.read_text() + json.dumps(row) + "\n")
    rows = External(sets=["mnli_mismatched"]).load().rows
    groups = {row.id.rpartition("/")[2]: row.group for row in rows}
    assert groups["m0"] == groups["m9"]
    assert len(set(groups.values())) == 9


def test_a_support_intent_has_twelve_options_and_its_own_among_them(root: Path) -> None:
    rows = list(External(sets=["support_intents"]).load().rows)
    places: Counter[int] = Counter()
    for row in rows:
        label = row.labels["decision"]
        assert len(label) == WAYS
        places[list(label.values()).index(1.0)] += 1
    assert len(places) == WAYS  # the intent stands everywhere, not always first
    assert max(places.values()) < 60


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a", "text": "x"}, "field 'label' is missing; a row here has id, text, label"),
        ({"id": "a", "text": "x", "label": 7}, "label 'label': probability of 'true' is 7"),
        ({"id": "t0", "text": "x", "label": True}, "id 'external/toxic_chat/t0' was already used"),
    ],
)
def test_a_bad_external_row_is_named(root: Path, row: dict[str, Any], message: str) -> None:
    path = root / "external" / "toxic_chat.jsonl"
    path.write_text(path.read_text() + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=re.escape(f"{path}:11: {message}")):
        External(sets=["toxic_chat"]).load()


def test_external_sets_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toxic.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["conv_id", "user_input", "model_output", "toxicity"])
        writer.writerows([["c1", "hello\nyou", "hi", "0"], ["c2", "bad", "no", "1"]])
    monkeypatch.delenv("REFLEX_DATA", raising=False)
    for module in ("reflex.benchmarks.external", "reflex.benchmarks.files"):
        monkeypatch.setattr(f"{module}.download", lambda file: path)
    suite = External(sets=["toxic_chat"]).load()
    assert word_of(suite.facts["sources"]["toxic_chat"]) == "rebuilt"
    assert {row.id: row.labels["decision"]["true"] for row in suite.rows} == {
        "external/toxic_chat/toxic_chat-c1": 0.0,
        "external/toxic_chat/toxic_chat-c2": 1.0,
    }


def test_external_hub_records_of_the_other_sets() -> None:
    bitext = SOURCES["support_intents"].hub(
        {"instruction": "cancel it", "intent": "cancel_order"}, 4
    )
    assert bitext == {"id": "bitext-4", "text": "cancel it", "label": "cancel_order"}
    pair = {"pairID": "3n", "premise": " p", "hypothesis": "h ", "label": 1}
    assert SOURCES["mnli_mismatched"].hub(pair, 0) == {
        "id": "mnli-3n",
        "premise": "p",
        "hypothesis": "h",
        "label": "neutral",
    }
    assert SOURCES["mnli_mismatched"].hub({**pair, "label": -1}, 0) is None
    yelp = SOURCES["yelp_stars"].hub({"text": "good", "label": 4}, 9)
    assert yelp == {"id": "yelp-9", "text": "good", "label": 4}


def test_no_external_rows_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"no external/yelp_stars\.jsonl below REFLEX_DATA"):
        External().load()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sets": ["imdb"]}, r"benchmark\.sets=imdb: use one of support_intents, "),
        ({"sets": []}, r"benchmark\.sets=\[\]: must name at least one"),
        ({"sets": ["toxic_chat", "toxic_chat"]}, r"benchmark\.sets=.*each once"),
        ({"files": {"imdb": "x.jsonl"}}, r"benchmark\.files=imdb: use one of"),
        ({"rows": "here"}, r"benchmark\.rows=here: use one of auto, local, hub"),
    ],
)
def test_external_sets_that_cannot_be_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        External(**change)


def test_a_hub_that_cannot_be_reached_is_one_line() -> None:
    with pytest.raises(DataError, match=r"nobody/nothing/a\.json could not be fetched") as caught:
        files.download(files.HubFile("nobody/nothing", "a.json"))
    assert "\n" not in str(caught.value)


# --- task files ---------------------------------------------------------------------------------

QUESTIONS = {
    "ok": {"type": "noul", "instructions": "Is it fine?"},
    "kind": {"type": "choice", "criteria": {"a": "first", "b": None}},
    "level": {"type": "score", "criteria": ["low", "middle", "high"]},
}
LABELS: dict[str, Any] = {"ok": 0.25, "kind": "b", "level": [0.5, 0.5, 0]}
ROW = {"state": {"z": "last", "a": 1}, "questions": QUESTIONS, "labels": LABELS}


def test_a_task_file_of_lines(tmp_path: Path) -> None:
    path = _lines(tmp_path / "mine.jsonl", [ROW, {**ROW, "state": "text", "family": "f"}])
    suite = TaskFile(path=str(path)).load()
    first, second = suite.rows
    assert (first.id, first.source, first.family, first.split) == (
        *("mine/1", "mine"),
        *("mine", "report"),
    )
    assert list(first.state) == ["z", "a"]
    assert first.labels["ok"] == {"true": 0.25, "false": 0.75}
    assert first.labels["level"] == {"0": 0.5, "1": 0.5, "2": 0.0}
    assert (second.family, second.state) == ("f", "text")
    assert suite.facts["sources"]["mine"]["n"] == 2
    assert suite.facts["questions"] == ["kind", "level", "ok"]


@pytest.mark.parametrize("indent", [None, 1])
def test_the_three_forms_hold_the_same_rows(tmp_path: Path, indent: int | None) -> None:
    rows = [{**ROW, "id": str(n)} for n in range(3)]
    items = [{key: row[key] for key in ("id", "state", "labels")} for row in rows]
    forms = {
        "array": rows,
        "shared": {"questions": QUESTIONS, "items": items},
        "turned": {"items": items, "questions": QUESTIONS},
    }
    lines = read_tasks(_lines(tmp_path / "rows.jsonl", rows))
    for name, value in forms.items():
        path = tmp_path / name / "rows.json"
        path.parent.mkdir()
        path.write_text(json.dumps(value, indent=indent))
        assert read_tasks(path) == lines, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": None}, "state must be text, an object or a list, not null"),
        ({"labels": {}}, "row {stem}/2: question 'ok' has no label; add it to labels"),
        ({"labels": {**LABELS, "kind": "c"}}, "label 'kind': 'c' is not among the options [a, b]"),
        ({"labels": {**LABELS, "level": [0.5, 0.6, 0]}}, "probabilities sum to 1.1, not 1"),
        ({"labels": {**LABELS, "x": 1}}, "label 'x' belongs to no question"),
        ({"weight": 2}, "field 'weight' is unknown; a row has id, state, questions, labels"),
        ({"questions": {"ok": {}}}, "questions.ok: no type; use one of 'choice', 'noul', 'score'"),
        (
            {"questions": {"ok": {"type": "nool"}}},
            "questions.ok: no type 'nool'; use one of 'choice', 'noul', 'score'",
        ),
    ],
)
@pytest.mark.parametrize("form", ["lines", "array"])
def test_a_bad_row_is_named_by_its_line(
    tmp_path: Path, form: str, change: dict[str, Any], message: str
) -> None:
    rows = [ROW, {**ROW, **change}]
    path = tmp_path / "bad.json"
    if form == "lines":
        _lines(path, rows)
    else:
        path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    with pytest.raises(DataError) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(f"{path}:{2 if form == 'lines' else 3}: ")
    assert message.replace("{stem}", "bad") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file holds no rows; write one a line: {"),
        ("[]", "the file holds no rows"),
        ('{"a": 1}\nnonsense', ":1: field 'state' is missing"),
        ("nonsense", ":1: not JSON"),
        ('[\n{"state": 1,\n}]', ":3: not JSON"),
        ('[{"state": "x"} {"state": "y"}]', ":1: not JSON (Expecting ',' delimiter)"),
        ('[{"state": "x"},\n]', ": not JSON ("),
        ("[]\n{}", ":2: not JSON (Extra data)"),
        ('[{},\n{"state": NaN}]', ":2: NaN is not JSON"),
        ('[{},\n{"state": "\\ud800"}]', ":2: holds half a surrogate pair"),
        ('[{},\n{"state": 1, "state": 2}]', ":2: key 'state' appears twice"),
        ('[{},\n{"state": 1e999}]', ":2: holds a number that is too large"),
        ('{"items": [{},\n{"state": NaN}]}', ":2: NaN is not JSON"),
        ('{"items": [],\n"questions": {"a": 1, "a": 2}}', ":2: key 'a' appears twice"),
        ('{"items": [],\n"items": []}', ":2: one JSON object must hold"),
        ('{\n"items": [\n' + "[" * 100_000, ": lists or objects are nested too deeply"),
        ("[1]", ":1: a row must be a JSON object like {"),
        ('{\n "items": 3\n}', "one JSON object must hold `questions` and a list `items`"),
        ('{"items": [], "rows": []}', "one JSON object must hold `questions` and a list `items`"),
    ],
)
def test_a_file_in_no_form_at_all(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ids_and_paths(tmp_path: Path) -> None:
    path = _lines(tmp_path / "a.jsonl", [{**ROW, "id": "x"}, ROW, {**ROW, "id": "x"}])
    with pytest.raises(DataError, match=r"a\.jsonl:3: id 'x' was already used in line 1"):
        TaskFile(path=str(path)).load()
    with pytest.raises(DataError, match="cannot be read"):
        TaskFile(path=str(tmp_path / "none.jsonl")).load()
    with pytest.raises(ConfigError, match=r"benchmark\.path is not set"):
        TaskFile().load()
    path = _lines(tmp_path / "b.jsonl", [{**ROW, "split": "fit"}, ROW])
    assert [row.split for row in TaskFile(path=str(path), split="fit").load().rows] == ["fit"]
    with pytest.raises(DataError, match="no row of split 'all'; the file has fit, report"):
        TaskFile(path=str(path), split="all").load()


# --- several at once, and out again -------------------------------------------------------------


def test_a_combined_suite_limits_each_set(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    suite = Combined(parts={"mmlu": MMLU(), "s1bench": S1Bench()}, limit=10).load()
    counts = Counter(row.source for row in suite.rows)
    assert set(counts.values()) == {10}
    assert counts["mmlu"] == counts["boolq"] == 10
    assert suite.facts["sources"]["boolq"]["word"] == "exact"
    assert suite.facts["sources"]["boolq"]["n"] == 10
    assert suite.facts["macro"]["complete"] is False
    assert set(suite.facts["parts"]) == {"mmlu", "s1bench"}
    json.dumps(suite.facts)


def test_combined_parts_may_not_share_an_item() -> None:
    with pytest.raises(DataError, match="item 'tickets/01' is in two parts"):
        Combined(parts={"a": Tickets(), "b": Tickets()}).load()
    with pytest.raises(ConfigError, match=r"benchmark\.parts is empty"):
        Combined()


def _exported(benchmark: dict[str, Any], path: Path) -> Suite:
    cfg = OmegaConf.create({"benchmark": benchmark})
    assert Export(path=str(path)).run(cfg) == 0
    return TaskFile(path=str(path)).load()


def _told_pairs(out: str) -> list[dict[str, str]]:
    """The question pairs that the command says to give, as Hydra reads them."""
    told = re.search("question pairs: read it with (.+)", out)
    if told is None:
        return []
    (word,) = shlex.split(told[1])
    override = OverridesParser.create().parse_override(word)
    assert override.key_or_group == "benchmark.question_pairs"
    value: Any = override.value()
    return list(value)


HERE = "reflex.benchmarks"
RATINGS = {"_target_": f"{HERE}.human_ratings.HumanRatings", "per_family": 3}
EXPORTED: dict[str, dict[str, Any]] = {
    "tickets": {"_target_": f"{HERE}.tickets.Tickets"},
    "mmlu": {"_target_": f"{HERE}.mmlu.MMLU", "limit": 60},
    "s1bench": {"_target_": f"{HERE}.s1bench.S1Bench", "limit": 10},
    "human_ratings": RATINGS,
    "question_sensitivity": {
        "_target_": f"{HERE}.question_sensitivity.QuestionSensitivity",
        "per_family": 3,
    },
    "external": {"_target_": f"{HERE}.external.External", "limit": 4},
    "held_out": {
        "_target_": f"{HERE}.held_out.HeldOut",
        "sources": ["mrpc"],
        "per_source": 6,
        "opposites": True,
    },
    "combined": {
        "_target_": f"{HERE}.combined.Combined",
        "parts": {"ratings": RATINGS, "tickets": {"_target_": f"{HERE}.tickets.Tickets"}},
        "limit": 5,
    },
}
SOFT = ("human_ratings", "question_sensitivity", "combined")
"""Those with the raters' own distributions as labels."""


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_suite_reads_back_equal(
    name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    if name == "external":
        request.getfixturevalue("root")
    elif name in SOFT:
        ratings = request.getfixturevalue("asset")
        monkeypatch.setattr("reflex.benchmarks.human_ratings.HUMAN_RATINGS", ratings)
    elif name != "tickets":
        monkeypatch.setenv("REFLEX_DATA", str(request.getfixturevalue("data_root")))
    path, again = tmp_path / f"{name}.jsonl", tmp_path / "again.jsonl"
    there, back = instantiate(EXPORTED[name]).load(), _exported(EXPORTED[name], path)
    assert {row.id: row for row in back.rows} == {row.id: row for row in there.rows}
    assert rows_sha256(back.rows) == rows_sha256(there.rows)
    assert items_sha256(back.rows) == items_sha256(there.rows)
    pairs = _told_pairs(capsys.readouterr().out)
    assert pairs == list(there.facts.get("question_pairs", ()))
    assert bool(pairs) is (name in ("held_out", "question_sensitivity"))
    again_with = TaskFile(path=str(path), question_pairs=pairs).load()
    assert again_with.facts.get("question_pairs", []) == pairs
    shares = {
        share for row in back.rows for label in row.labels.values() for share in label.values()
    }
    assert (shares <= {0.0, 1.0}) is (name not in SOFT)
    _exported({"_target_": f"{HERE}.task_file.TaskFile", "path": str(path)}, again)
    assert again.read_bytes() == path.read_bytes()
    # The word goes along: figures over the file are no surer than figures over the suite.
    read = {row.source for row in there.rows}
    words, expected = (
        {
            source: word_of(facts)
            for source, facts in sources_of(suite.facts).items()
            if source in read and "word" in facts
        }
        for suite in (back, there)
    )
    assert words == expected
    assert combined(sources_of(back.facts).values()) == combined(sources_of(there.facts).values())
    assert "macro" not in back.facts


def test_the_words_of_an_exported_s1bench(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("REFLEX_DATA", str(data_root))
    path = tmp_path / "s1.jsonl"
    config = {**EXPORTED["s1bench"], "subsets": ["boolq", "paws"]}
    sources = _exported(config, path).facts["sources"]
    assert "20 rows of s1bench" in capsys.readouterr().out
    assert word_of(sources["boolq"]) == "exact, 10 of 300"
    assert sources["paws"]["word"] == "stand-in"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"word": "exactly", "of": 9},
            "word 'exactly' must be one of exact, rebuilt, stand-in, or",
        ),
        (
            {"word": "missing", "of": 9},
            "word 'missing' must be one of exact, rebuilt, stand-in, or",
        ),
        ({"word": "exact", "of": 0}, "of 0 beside word must be the number of items"),
        ({"word": "exact", "of": True}, "of True beside word must be the number of items"),
    ],
)
def test_a_word_that_says_nothing(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = _lines(tmp_path / "rows.jsonl", [ROW, {**ROW, **change}])
    with pytest.raises(DataError, match=re.escape(f"{path}:2: {message}")):
        TaskFile(path=str(path)).load()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exact", "exact"], "exact, 2 of 9"),
        (["rebuilt", "exact"], "rebuilt, 2 of 9"),
        (["exact", None], "stand-in, 2 of 9"),  # a row was added
        ([None, None], None),
    ],
)
def test_the_word_of_a_files_source(
    tmp_path: Path, words: list[str | None], said: str | None
) -> None:
    rows = [{**ROW, **({"word": word, "of": 9} if word else {})} for word in words]
    suite = TaskFile(path=str(_lines(tmp_path / "mine.jsonl", rows))).load()
    assert word_of(suite.facts["sources"]["mine"]) == said


def test_rows_to_fit_on_are_in_no_figure(tmp_path: Path) -> None:
    rows = [
        {**ROW, "split": split, "labels": {**LABELS, "ok": yes}, "word": "exact", "of": 5}
        for split, yes, count in (("fit", True, 3), ("report", False, 2))
        for _ in range(count)
    ]
    config: dict[str, Any] = {"path": str(_lines(tmp_path / "mine.jsonl", rows))}
    facts = TaskFile(**config).load().facts["sources"]["mine"]
    assert (facts["n"], facts["splits"]) == (2, {"fit": 3, "report": 2})
    assert word_of(facts) == "exact"  # not a part: the others are fitted on
    part = {"mine": {"_target_": f"{HERE}.task_file.TaskFile", **config}}
    for limit, word in ((None, "exact"), (4, "exact, 4 of 5")):
        facts = Combined(parts=part, limit=limit).load().facts["sources"]["mine"]
        assert word_of(facts) == word
        assert facts["n"] == facts["splits"]["report"]


def test_export_needs_a_path() -> None:
    with pytest.raises(ConfigError, match=r"task\.path is not set"):
        Export().run(OmegaConf.create({}))
