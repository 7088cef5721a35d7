"""`model=remote`: the same evaluation over the wire, what faults do to it, and what it refuses to claim."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reflex
from reflex.benchmarks.base import Suite, row_counts
from reflex.benchmarks.left_out import answered_only
from reflex.benchmarks.words import word_of
from reflex.contract import ChoiceAnswer, NoulAnswer, ScoreAnswer, parse_question
from reflex.data.rows import Row
from reflex.errors import ConfigError, RecordError, RemoteError
from reflex.remote.answers import probabilities_of
from reflex.remote.client import Asked, RemoteDecider
from reflex.remote.health import served
from reflex.remote.kept import ANSWERS, Kept
from reflex.remote.remote import RemoteModel
from reflex.serving.source import locate
from reflex.tasks.remote import check_unchanged
from reflex.tracking.predictions import read_predictions
from reflex.tracking.record import read_record
from tests import cli
from tests.remote_server import FakeServer, Reply, distribution, fake_server
from tests.serving import serving, tiny_decider

ROWS = 6


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return cli.write_tasks(tmp_path / "tasks.jsonl", ROWS)


def ask(url: str, tasks: Path, *more: str) -> cli.Ended:
    """Evaluate the task file at `url`; impatient, so that faults take no seconds."""
    return cli.run(
        *("model=remote", f"model.base_url={url}", "model.retries=2", "tracker=none"),
        *("benchmark=task_file", f"benchmark.path={tasks}", *more),
    )


def only_run(runs: Path) -> Path:
    (record,) = runs.glob("*/record.json")
    return record.parent


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ANSWERS).read_text().splitlines()]


# -- the same answers ------------------------------------------------------------------------------


def test_a_server_gives_what_the_same_model_gives_here(tmp_runs: Path, tasks: Path) -> None:
    local = ["backbone=tiny_llama", "device.dtype=float32", "tracker=none"]
    ended = cli.run(*local, "benchmark=task_file", f"benchmark.path={tasks}", "orders=two")
    assert ended.status == 0, ended.err
    here = only_run(tmp_runs)
    with serving(tiny_decider("orders=two")) as url:
        ended = ask(url, tasks, "orders=two")  # a claim that the server confirms
        assert ended.status == 0, ended.err
        with serving(tiny_decider("orders=one")) as other:
            ended = ask(other, tasks, "orders=two")
    assert ended.status == 1
    assert "does not confirm it (/health says kind shuffled, permutations 1" in ended.err
    (there,) = [run.parent for run in tmp_runs.glob("*/record.json") if run.parent != here]

    mine, theirs = read_predictions(here), read_predictions(there)
    assert theirs["item_id"].tolist() == mine["item_id"].tolist()
    for column in ("keys", "target", "gold", "readout", "type", "described", "state_tokens"):
        assert theirs[column].tolist() == mine[column].tolist()
    for p, q in zip(mine["probabilities"], theirs["probabilities"], strict=True):
        assert q == pytest.approx(p, abs=1e-5)
    first = theirs.iloc[0]
    assert first["order_keys"] == [first["keys"]]
    assert [math.exp(score) for score in first["scores"][0]] == pytest.approx(
        first["probabilities"]
    )

    record = read_record(there)
    assert record.metrics["nll"]["value"] == pytest.approx(
        read_record(here).metrics["nll"]["value"], abs=1e-5
    )
    assert "flip_rate" in read_record(here).metrics
    assert not {"flip_rate", "disagreement"} & set(record.metrics)
    # What answered is what /health says, not what this configuration would have been.
    assert record.axes["model"] == "remote"
    assert (record.axes["backbone"], record.axes["prompt"]) == ("tiny_llama", "chat")
    assert record.config["backbone"] is record.config["prompt"] is None
    assert record.backbone["weights_sha256"] == read_record(here).backbone["weights_sha256"]
    assert record.prompt_hash == read_record(here).prompt_hash
    assert record.served is not None
    assert record.served["health"]["orders"]["permutations"] == 2
    assert record.debug  # random weights, there as here


def test_load_answers_like_a_decider(fake: FakeServer) -> None:
    decider = reflex.load(["model=remote", f"model.base_url={fake.url}/v1/"])
    request = {
        "state": "a text",
        "questions": {"c": {"type": "choice", "criteria": {"yes": None, "no": None}}},
    }
    expected = distribution("a text", ["yes", "no"])
    assert decider.answer(request).answers["c"].model_dump()["probabilities"] == expected

    async def in_a_notebook() -> Any:
        return decider.answer(request)

    assert asyncio.run(in_a_notebook()).answers["c"].probabilities == expected
    assert decider.name == "fake-1"


def test_what_a_request_says_is_asked(fake: FakeServer) -> None:
    sent: list[dict[str, Any]] = []
    answer = fake.answer
    fake.answer = lambda body: sent.append(body) or answer(body)  # type: ignore[func-returns-value,method-assign]
    decider = reflex.load(["model=remote", f"model.base_url={fake.url}", "model.model=m-1"])
    asked = {"state": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}
    further = {"permutations": 3, "x_orders": True, "model": "m-2"}
    decider.answer(asked)
    decider.answer({**asked, **further})
    assert sent == [{**asked, "model": "m-1"}, {**asked, **further}]


def test_requests_are_in_flight_together_and_bounded(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    fake.delay_s = 0.2
    ended = ask(fake.url, tasks, "model.concurrency=3")
    assert ended.status == 0, ended.err
    assert fake.most == 3
    assert set(fake.asked.values()) == {1}
    cost = read_record(only_run(tmp_runs)).cost
    assert cost["decisions"] == 3 * ROWS
    assert cost["tokens_per_decision"] == pytest.approx(100 / 3)
    assert cost["requests"]["latency_ms"]["p50"] >= 200
    assert 400 <= cost["ms_per_decision"] * cost["decisions"] < 5000


def test_the_key_is_sent_and_kept_nowhere(
    fake: FakeServer, tmp_runs: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TYPESAFE_API_KEY", "sk-secret-4711")
    ended = ask(fake.url, tasks)
    assert ended.status == 0
    assert fake.keys == {"Bearer sk-secret-4711"}
    written = b"".join(path.read_bytes() for path in tmp_runs.rglob("*") if path.is_file())
    assert b"4711" not in written
    assert "4711" not in ended.out + ended.err


# -- faults ----------------------------------------------------------------------------------------


def test_faults_that_pass_are_retried_and_recorded(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    faults = {
        "row 0 is fine": (500, {"detail": "boom"}, {}),
        "row 1 is fine": (429, {"detail": "slow down"}, {"retry-after-ms": "1"}),
        "row 2 is fine": (0, None, {}),
        "row 3 is fine": (503, {"detail": "warming up"}, {"retry-after": "0"}),
    }
    fake.fault = lambda state, before: faults.get(state) if before == 0 else None
    ended = ask(fake.url, tasks)
    assert ended.status == 0, ended.err
    assert [fake.asked[f"row {i} is fine"] for i in range(ROWS)] == [2, 2, 2, 2, 1, 1]
    requests = read_record(only_run(tmp_runs)).cost["requests"]
    assert requests["answered"] == ROWS
    assert requests["failed_tries"] == {
        "InternalServerError": 2,
        "RateLimitError": 1,
        "APIConnectionError": 1,
    }
    (noted,) = [line for line in lines(only_run(tmp_runs)) if line["item"] == "r1"]
    assert "slow down" in noted["failed_tries"][0]


def test_a_slow_server_is_waited_for_until_the_timeout(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    fake.delay_s = 0.6
    ended = ask(fake.url, tasks, "model.timeout_s=0.2", "model.retries=0")
    assert ended.status == 1
    assert "APITimeoutError" in ended.err
    assert RemoteModel(base_url="http://x").timeout_s == 120


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ((422, {"detail": [{"loc": ["body", "state"], "msg": "too odd"}]}, {}), "state: too odd"),
        ((200, b"{not json", {}), "APIResponseValidationError"),
        ((200, {"model": "m", "answers": {}, "usage": {"input_tokens": 1}}, {}), "not answered"),
    ],
)
def test_an_item_that_stays_unanswered_fails_the_run_and_is_asked_again(
    fake: FakeServer, tmp_runs: Path, tasks: Path, fault: Any, words: str
) -> None:
    fake.fault = lambda state, before: fault if state == "row 4 is fine" else None
    ended = ask(fake.url, tasks)
    assert ended.status == 1
    assert "1 of 6 items stayed unanswered (item r4: " in ended.err
    assert words in ended.err
    assert read_record(only_run(tmp_runs)).status == "failed"
    assert set(fake.asked.values()) == {1}  # what will not change is not asked twice in a run

    fake.fault = lambda state, before: None
    ended = ask(fake.url, tasks)
    assert ended.status == 0, ended.err
    assert fake.asked.total() == ROWS + 1
    record = read_record(only_run(tmp_runs))
    assert record.status == "finished"
    assert record.cost["requests"]["sessions"] == 2
    assert sum(record.cost["requests"]["failed_requests"].values()) == 1


def test_a_few_unanswered_items_can_be_allowed(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    said = [{**json.loads(line), "word": "exact", "of": ROWS} for line in tasks.open()]
    tasks.write_text("".join(json.dumps(line) + "\n" for line in said))
    fake.fault = lambda state, before: (413, {"detail": "long"}, {}) if "4" in state else None
    ended = ask(fake.url, tasks, "model.max_failures=1")
    assert ended.status == 0, ended.err
    record = read_record(only_run(tmp_runs))
    assert record.data["unanswered"] == ["r4"]
    assert record.data["n_rows"] == ROWS - 1
    # No figure claims more than was measured, and the page says what that was.
    page = ended.page.read_text()
    assert "| tasks | exact, 5 of 6 |" in page
    assert "exact, 6" not in page
    assert f"- answered: 5 of 6 items, by fake-1 at {fake.url}; every figure is over those" in page
    assert sorted(set(read_predictions(only_run(tmp_runs))["item_id"])) == [
        f"r{i}" for i in range(ROWS) if i != 4
    ]


def test_what_was_not_answered_is_in_no_count_word_or_macro() -> None:
    def rows(source: str, n: int, split: str = "report") -> list[Row]:
        return [
            Row(
                f"{source}/{split}/{i}",
                "x",
                {"q": NOUL},
                {"q": {"true": 1.0, "false": 0.0}},
                source,
                split=split,
            )
            for i in range(n)
        ]

    asked = [*rows("whole", 2), *rows("part", 3), *rows("part", 2, "fit"), *rows("none", 1)]
    macro = {"subsets": ["whole", "none"], "complete": True, "lacking": [], "word": "exact"}
    sources = {
        "whole": {"word": "exact", "n": 2, "n_pinned": 2},
        "part": {"word": "rebuilt", **row_counts(asked[2:7])},
        "none": {"word": "exact", "reason": "all of it", "n": 1, "n_pinned": 1, "licence": "MIT"},
    }
    suite = Suite("s", asked, {"sources": sources, "macro": macro, "notes": {"draw": "by hash"}})
    assert answered_only(suite, list(asked), "x") is suite
    told = answered_only(suite, [*asked[:4], asked[6]], "x").facts
    assert told["sources"]["whole"] == sources["whole"]
    assert (told["sources"]["part"]["n"], word_of(told["sources"]["part"])) == (
        2,
        "rebuilt, 3 of 5",
    )
    assert told["sources"]["none"] == {
        "word": "missing",
        "reason": "no item of it was answered",
        "n": 0,
        "licence": "MIT",
    }
    assert told["macro"] == {**macro, "complete": False, "lacking": ["none"], "word": None}
    assert told["notes"] == {
        "draw": "by hash",
        "answered": "5 of 8 items, by x; every figure is over those",
    }


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_every_item_would_get_stops_the_run(
    fake: FakeServer, tmp_runs: Path, tasks: Path, status: int
) -> None:
    fake.fault = lambda state, before: (status, {"detail": "go away"}, {})
    ended = ask(fake.url, tasks, "model.concurrency=1")
    assert ended.status == 1
    assert fake.asked.total() == 1
    assert f"model.base_url={fake.url}: " in ended.err
    assert "go away" in ended.err


def test_a_server_that_answers_nothing_is_given_up(
    fake: FakeServer, tmp_runs: Path, tmp_path: Path
) -> None:
    many = cli.write_tasks(tmp_path / "many.jsonl", 40)
    fake.fault = lambda state, before: (500, {"detail": "boom"}, {})
    ended = ask(fake.url, many, "model.retries=0", "model.concurrency=2")
    assert ended.status == 1
    assert "10 items in a row stayed unanswered" in ended.err
    assert fake.asked.total() <= 12


def test_nobody_there_is_one_line(tmp_runs: Path, tasks: Path) -> None:
    with fake_server() as gone:
        url = gone.url
    ended = ask(url, tasks)
    assert ended.status == 1
    assert ended.err.startswith(f"error: {url}/health: nothing answers there")
    assert ended.err.count("\n") == 1


# -- going on --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_run_asks_only_for_the_rest(fake: FakeServer, tmp_runs: Path, tasks: Path) -> None:
    fake.delay_s = 0.5
    process = cli.start(
        *("model=remote", f"model.base_url={fake.url}", "model.concurrency=1", "tracker=none"),
        *("benchmark=task_file", f"benchmark.path={tasks}"),
    )
    until = time.monotonic() + 60
    while sum(len(lines(file.parent)) for file in tmp_runs.glob(f"*/{ANSWERS}")) < 2:
        assert time.monotonic() < until, process.poll()
        time.sleep(0.05)
    process.kill()
    process.communicate()
    (file,) = tmp_runs.glob(f"*/{ANSWERS}")
    kept = len(lines(file.parent))
    with file.open("ab") as stream:
        stream.write(b'{"row": 5, "item": "r5", "response": {"model"')  # cut off by the kill
    fake.delay_s = 0.0
    fake.asked.clear()
    ended = ask(fake.url, tasks, "model.concurrency=4")  # not what is asked: the same cell
    assert ended.status == 0, ended.err
    assert fake.asked.total() == ROWS - kept
    assert [line["row"] for line in lines(file.parent)].count(5) == 1
    again = ask(fake.url, tasks)
    assert "already recorded" in again.err + again.out
    assert fake.asked.total() == ROWS - kept
    ended = ask(fake.url, tasks, "force=true")
    assert ended.status == 0
    assert fake.asked.total() == ROWS - kept + ROWS


def test_answers_of_two_models_are_not_mixed(fake: FakeServer, tmp_runs: Path, tasks: Path) -> None:
    def swap(state: str, before: int) -> None:
        fake.health = {"status": "ready", "model": "fake-2"}

    fake.fault = swap
    ended = ask(fake.url, tasks)
    assert ended.status == 1
    assert "serves something else than when this run started" in ended.err
    assert not list(tmp_runs.glob(f"*/{ANSWERS}"))


BAD_PAGES: list[Reply] = [
    (502, b"<html>Bad Gateway</html>", {}),
    (429, {"detail": "slow down"}, {}),
    (403, {"detail": "not for you"}, {}),
]


@pytest.mark.parametrize("page", BAD_PAGES)
def test_a_bad_health_page_at_the_end_drops_nothing(
    fake: FakeServer, tmp_path: Path, page: Any
) -> None:
    config = RemoteModel(base_url=fake.url)
    before = served(fake.url)
    with Kept(tmp_path) as kept:
        kept.add({"row": 0, "item": "a", "response": {}})
        fake.health = page
        with pytest.raises(RemoteError, match="/health"):
            check_unchanged(config, before, kept)
        assert kept.answered == {0}
        assert len(lines(tmp_path)) == 1
        fake.health = before
        check_unchanged(config, before, kept)
        fake.health = {"status": "ready", "model": "fake-2"}
        with pytest.raises(RemoteError, match="answers were dropped"):
            check_unchanged(config, before, kept)
    assert not (tmp_path / ANSWERS).exists()


def test_a_bad_health_page_at_the_start_is_not_a_server_without_one(fake: FakeServer) -> None:
    for fake.health in BAD_PAGES[:2]:
        with pytest.raises(RemoteError, match=rf"/health answered {fake.health[0]}; try again"):
            served(fake.url)
    fake.health = BAD_PAGES[2]  # kept from us, for good as far as anyone knows
    assert served(fake.url) == {}


def test_answers_of_another_model_do_not_outlive_a_run_that_is_given_up(
    fake: FakeServer, tmp_runs: Path, tmp_path: Path
) -> None:
    """It answers five items and breaks down; then the first one is back."""
    many = cli.write_tasks(tmp_path / "many.jsonl", 20)
    good = fake.health

    def other(state: str, before: int) -> Any:
        fake.health = {"status": "ready", "model": "fake-2"}
        return (500, {"detail": "boom"}, {}) if int(state.split()[1]) >= 5 else None

    fake.fault = other
    ended = ask(fake.url, many, "model.retries=0", "model.concurrency=1")
    assert ended.status == 1
    assert "10 items in a row stayed unanswered" in ended.err
    assert "serves something else than when this run started" in ended.err
    assert not list(tmp_runs.glob(f"*/{ANSWERS}"))
    fake.fault = lambda state, before: None
    fake.health = good
    fake.asked.clear()
    assert ask(fake.url, many).status == 0
    assert fake.asked.total() == 20


def test_answers_of_another_model_do_not_outlive_a_run_that_is_stopped(
    fake: FakeServer, tmp_runs: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: RemoteDecider, requests: Any, done: Any) -> None:
        done(0, Asked(response=self.answer({"state": "x", "questions": {"q": NOUL.model_dump()}})))
        fake.health = {"status": "ready", "model": "fake-2"}
        raise KeyboardInterrupt

    ask_all = RemoteDecider.ask_all
    asking = iter([stopped, ask_all])
    monkeypatch.setattr(RemoteDecider, "ask_all", lambda *a: next(asking, ask_all)(*a))
    with contextlib.suppress(KeyboardInterrupt):
        assert ask(fake.url, tasks).status != 0
    assert fake.asked["x"] == 1
    assert not list(tmp_runs.glob(f"*/{ANSWERS}"))


def test_answers_that_name_two_models_are_not_joined(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    fake.health = None
    fake.fault = lambda state, before: (413, {"detail": "long"}, {}) if "4" in state else None
    assert ask(fake.url, tasks, "model.concurrency=1").status == 1
    fake.fault = lambda state, before: None
    fake.model = "fake-2"
    words = "answers of two models: item r0 by model fake-1, item r4 by model fake-2; force=true"
    for asked_more in (1, 0):  # and nothing is asked for what cannot become a result
        fake.asked.clear()
        ended = ask(fake.url, tasks, "model.concurrency=1")
        assert ended.status == 1
        assert words in ended.err
        assert fake.asked.total() == asked_more
    assert ask(fake.url, tasks, "force=true").status == 0


@given(cut=st.integers(0, 400))
def test_any_cut_leaves_whole_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("kept")
    written: list[dict[str, Any]] = [
        {"row": i, "item": f"é{i}", "response": {"n": i}} for i in range(4)
    ]
    with Kept(folder) as kept:
        for line in written:
            kept.add(line)
    size = kept.path.stat().st_size
    os.truncate(kept.path, min(cut, size))
    with Kept(folder) as kept:
        before = len(kept.answered)
        assert [kept.lines[row] for row in sorted(kept.lines)] == written[:before]
        kept.add({"row": 9, "item": "new", "response": {}})
    with Kept(folder) as kept:
        assert kept.answered == {*range(before), 9}


# -- claims ----------------------------------------------------------------------------------------


def test_styles_that_the_server_does_not_confirm_are_not_compared(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    for health in (None, {"prompt": {"style": "chat", "hash": "0"}}):
        fake.health = health
        ended = ask(fake.url, tasks, "-m", "prompt=chat,compact")
        assert ended.status == 1
        assert f"prompt=style chat, hash dca20b341258: {fake.url} does not confirm it" in ended.err
    from reflex.prompts.styles.chat import ChatStyle

    # One of the two confirmed is not enough: nothing is asked at all.
    fake.health = {"prompt": {"style": "chat", "hash": ChatStyle().fingerprint()}}
    ended = ask(fake.url, tasks, "-m", "prompt=chat,compact")
    assert ended.status == 1
    assert "prompt=style compact" in ended.err
    assert fake.asked.total() == 0
    assert ask(fake.url, tasks, "prompt=chat").status == 0
    assert fake.asked.total() == ROWS


def test_two_servers_are_compared_by_what_they_say_they_serve(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    with fake_server() as other:
        fake.health = {"model": "m", "prompt": {"style": "chat", "hash": "1" * 64}}
        other.health = {"model": "m", "prompt": {"style": "compact", "hash": "2" * 64}}
        ended = cli.run(
            *("-m", "model=remote", f"model.base_url={fake.url},{other.url}", "tracker=none"),
            *("benchmark=task_file", f"benchmark.path={tasks}"),
        )
    assert ended.status == 0, ended.err
    assert [row[0] for row in ended.table] == ["chat", "compact"]
    records = [read_record(file) for file in tmp_runs.glob("*/record.json")]
    assert {record.name for record in records} == {
        f"model.base_url={fake.url}",
        f"model.base_url={other.url}",
    }


def test_what_needs_the_model_itself_says_so(fake: FakeServer, tmp_runs: Path) -> None:
    ended = cli.run("model=remote", f"model.base_url={fake.url}", "task=equivalence")
    assert ended.status == 1
    assert "model=remote: this needs the model itself" in ended.err


def test_a_remote_run_is_loaded_as_one_and_never_served_or_calibrated_here(
    fake: FakeServer, tmp_runs: Path, tasks: Path
) -> None:
    assert ask(fake.url, tasks).status == 0
    run = only_run(tmp_runs)
    answered = reflex.load(run).answer({"state": "x", "questions": {"q": NOUL.model_dump()}})
    assert (
        answered.answers["q"].model_dump()["noul"] == distribution("x", ["true", "false"])["true"]
    )
    with pytest.raises(RecordError, match="there is no model here"):
        locate(str(run))
    ended = cli.run("task=calibrate", f"task.from_run={run}", "calibration=global")
    assert ended.status == 1
    assert f"its answers came from {fake.url}" in ended.err


def test_a_loading_server_is_waited_for(fake: FakeServer) -> None:
    fake.health = {"status": "loading"}
    with pytest.raises(RemoteError, match=r"still loading after 0\.2 s"):
        served(fake.url, wait_s=0.2)
    fake.health = {"status": "failed", "error": "no such weights"}
    with pytest.raises(RemoteError, match="cannot serve: no such weights"):
        served(fake.url)
    fake.health = None
    assert served(fake.url) == {}


# -- answers ---------------------------------------------------------------------------------------

CHOICE = parse_question({"type": "choice", "criteria": {"b": None, "a": None, "c": None}})
NOUL = parse_question({"type": "noul", "instructions": "?"})
SCORE = parse_question({"type": "score", "criteria": ["x", "y"]})


def choice(**p: float) -> ChoiceAnswer:
    return ChoiceAnswer(choice="a", probabilities=p, confidence=0.0)


def test_probabilities_come_in_the_callers_order() -> None:
    assert probabilities_of(CHOICE, choice(a=0.5, b=0.25, c=0.25)) == (0.25, 0.5, 0.25)
    assert probabilities_of(NOUL, NoulAnswer(noul=0.25)) == (0.25, 0.75)
    answer = ScoreAnswer(score=1, legend={}, probabilities={"1": 1.0, "0": 0.0}, confidence=1)
    assert probabilities_of(SCORE, answer) == (0.0, 1.0)


def test_rounded_probabilities_are_made_to_sum_to_one() -> None:
    found = probabilities_of(CHOICE, choice(a=0.33, b=0.33, c=0.31))
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert found[0] / found[2] == pytest.approx(0.33 / 0.31)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (NoulAnswer(noul=0.5), "answers a choice question with noul"),
        (choice(a=0.5, b=0.5), "option 'c' is missing"),
        (choice(a=0.5, b=0.25, c=0.25, d=0.0), "option 'd'"),
        (choice(a=0.5, b=0.2, c=0.2), "sum to 0.9, not 1"),
        (choice(a=math.nan, b=0.5, c=0.5), "not a number from 0 to 1"),
        (choice(a=1.5, b=-0.25, c=-0.25), "not a number from 0 to 1"),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: Any, words: str) -> None:
    with pytest.raises(RemoteError, match=words):
        probabilities_of(CHOICE, answer)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"base_url": "localhost:8000"}, "give http://"),
        ({"base_url": "http://user:pw@host"}, "TYPESAFE_API_KEY"),
        ({"base_url": "http://host", "concurrency": 0}, "model.concurrency=0"),
        ({"base_url": "http://host", "retries": -1}, "model.retries=-1"),
    ],
)
def test_a_configuration_that_cannot_work(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RemoteModel(**values)
