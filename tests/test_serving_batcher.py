"""The batcher alone (a fake model), then with the tiny one: fairness, cancellation, isolation, order."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from reflex.contract import parse_request
from reflex.errors import NotReadyError, OverloadedError, ReadoutError
from reflex.serving.batcher import Batcher, BatchStats, Ticket
from reflex.serving.config import ServeConfig
from reflex.serving.slices import Slice, cut
from scripts.serve_process import numbers
from tests.serving import CHOICE, NOUL, SCORE, post, serving, tiny_decider


class FakeModel:
    """Answers `{question: (question, batch number)}`; can be held, and fails on poison."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.entered = threading.Event()
        self.poison: Exception = RuntimeError("poison")

    def __call__(self, compiled: Sequence[Any]) -> list[dict[str, Any]]:
        self.batches.append(list(compiled))
        self.entered.set()
        self.hold.wait(10)
        if "poison" in compiled:
            raise self.poison
        return [{name: (name, len(self.batches))} for name in compiled]


def piece(name: str, tokens: int = 10, state: str = "s", state_tokens: int = 5) -> Slice:
    return Slice(name, state, state_tokens, tokens)  # type: ignore[arg-type]


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


def batcher(model: FakeModel, **config: Any) -> Batcher:
    made = Batcher(ServeConfig(**config), model)
    made.start()
    return made


def answer(ticket: Ticket) -> Any:
    """What the fake model said."""
    return ticket.future.result(5)


def held(model: FakeModel, made: Batcher) -> Any:
    """Occupy the inference thread; returns the ticket that does."""
    model.hold.clear()
    model.entered.clear()
    ticket = made.submit([piece("first")])
    assert model.entered.wait(5)
    return ticket


def test_what_waits_together_runs_together(model: FakeModel) -> None:
    made = batcher(model)
    first = held(model, made)
    others = [made.submit([piece(f"r{i}")]) for i in range(8)]
    model.hold.set()
    assert answer(first) == {"first": ("first", 1)}
    assert [answer(t) for t in others] == [{f"r{i}": (f"r{i}", 2)} for i in range(8)]
    assert others[0].largest_batch == 8
    made.stop()


def test_memory_is_given_back_once_per_idle_time(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    idle = threading.Event()

    def give_back() -> None:
        given.append(time.monotonic())
        idle.set()

    monkeypatch.setattr("reflex.serving.batcher.give_back", give_back)
    monkeypatch.setattr("reflex.serving.batcher.IDLE_S", 0.05)
    made = batcher(model)
    time.sleep(0.2)
    assert not given  # nothing was asked yet
    for times in (1, 2):
        idle.clear()
        assert answer(made.submit([piece("a")]))
        assert idle.wait(5)
        time.sleep(0.2)
        assert len(given) == times
    made.stop()


def test_giving_memory_back_works_here() -> None:
    from reflex.serving.memory import give_back

    give_back()


def test_a_huge_request_lets_small_ones_in_between(model: FakeModel) -> None:
    made = batcher(model, slice_tokens=100, batch_ms=0.001)
    held(model, made)
    huge = made.submit([piece(f"huge{i}", 90) for i in range(20)])
    small = [made.submit([piece(f"small{i}", 5, f"s{i}")]) for i in range(3)]
    model.hold.set()
    huge.future.result(10)
    when = [batch for batch, names in enumerate(model.batches) if "small2" in names]
    assert when[0] <= 2, model.batches
    assert small[0].future.result(1)
    order = [name for names in model.batches for name in names if name.startswith("huge")]
    assert order == [f"huge{i}" for i in range(20)]
    made.stop()


def test_two_huge_requests_advance_in_turn(model: FakeModel) -> None:
    made = batcher(model, slice_tokens=100, batch_ms=0.001)
    held(model, made)
    tickets = [made.submit([piece(f"{n}{i}", 90) for i in range(5)]) for n in "ab"]
    model.hold.set()
    for ticket in tickets:
        ticket.future.result(10)
    flat = [name[0] for names in model.batches[1:] for name in names]
    assert flat == list("ab" * 5)
    made.stop()


def test_a_large_state_is_not_starved(model: FakeModel) -> None:
    made = batcher(model, slice_tokens=100, batch_ms=0.001)
    held(model, made)
    big = made.submit([piece("big", 10, "other", 5000)])
    for i in range(5):
        made.submit([piece(f"small{i}", 60, f"s{i}")])
    model.hold.set()
    assert answer(big) == {"big": ("big", 2)}
    made.stop()


def test_a_full_queue_refuses_with_a_time(model: FakeModel) -> None:
    made = batcher(model, max_queue=3)
    held(model, made)
    for i in range(3):
        made.submit([piece(f"r{i}")])
    with pytest.raises(OverloadedError, match=r"serve\.max_queue") as caught:
        made.submit([piece("late")])
    assert caught.value.retry_after
    assert caught.value.retry_after >= 1
    model.hold.set()
    made.stop()


def test_what_is_cancelled_never_runs(model: FakeModel) -> None:
    made = batcher(model, slice_tokens=10, batch_ms=0.001)
    held(model, made)
    gone = made.submit([piece(f"gone{i}") for i in range(5)])
    kept = made.submit([piece("kept")])
    made.cancel(gone)
    model.hold.set()
    assert kept.future.result(5)
    made.stop()
    assert not any(name.startswith("gone") for names in model.batches for name in names)
    assert gone.future.cancelled()


def test_a_fault_stays_with_its_request(model: FakeModel) -> None:
    made = batcher(model)
    held(model, made)
    tickets = {name: made.submit([piece(name)]) for name in ("a", "poison", "b")}
    model.hold.set()
    assert tickets["a"].future.result(5)
    assert tickets["b"].future.result(5)
    with pytest.raises(RuntimeError, match="poison"):
        tickets["poison"].future.result(5)
    assert made.submit([piece("after")]).future.result(5)
    made.stop()


@pytest.mark.parametrize(
    ("error", "traceback"), [(RuntimeError("poison"), True), (ReadoutError("no numbers"), False)]
)
def test_what_a_fault_says_by_itself_is_logged_as_a_line(
    model: FakeModel, caplog: pytest.LogCaptureFixture, error: Exception, traceback: bool
) -> None:
    model.poison = error
    made = batcher(model)
    with pytest.raises(type(error), match=str(error)):
        made.submit([piece("poison")]).future.result(5)
    made.stop()
    (line,) = caplog.records
    assert (line.exc_info is not None) == traceback
    assert line.getMessage().endswith("RuntimeError" if traceback else "no numbers")


class Leaving(Future[Any]):
    """Cancelled between the look whether it is done and the answer."""

    def done(self) -> bool:
        return False


@pytest.mark.parametrize("name", ["answered", "poison"])
def test_a_client_that_leaves_in_the_last_moment_ends_nothing(model: FakeModel, name: str) -> None:
    made = batcher(model)
    held(model, made)
    ticket = made.submit([piece(name)])
    ticket.future = Leaving()
    assert ticket.future.cancel()
    model.hold.set()
    assert answer(made.submit([piece("after")]))["after"][0] == "after"
    made.stop()


def test_stop_finishes_what_was_accepted_and_takes_no_more(model: FakeModel) -> None:
    made = batcher(model)
    held(model, made)
    tickets = [made.submit([piece(f"r{i}")]) for i in range(5)]
    stopper = threading.Thread(target=made.stop)
    stopper.start()
    time.sleep(0.05)
    with pytest.raises(NotReadyError):
        made.submit([piece("late")])
    model.hold.set()
    stopper.join(5)
    assert all(ticket.future.done() for ticket in tickets)


def test_nobody_waits_alone(model: FakeModel) -> None:
    """The window opens only where company is expected."""
    made = batcher(model, window_ms=500.0)
    made.submit([piece("a")]).future.result(5)
    start = time.perf_counter()
    for i in range(5):
        made.submit([piece(f"r{i}")]).future.result(5)
    assert time.perf_counter() - start < 0.25
    made.stop()


# -- with a model ----------------------------------------------------------------------------------


def question_sets() -> list[dict[str, Any]]:
    sets: list[dict[str, Any]] = []
    for i in range(24):
        many = {f"Queue {j}": f"Tickets about {j}" for j in range(2 + i)}
        questions = {
            "noul": {**NOUL, "instructions": f"Is {i} mentioned?"},
            "choice": {"type": "choice", "instructions": f"Which for {i}?", "criteria": many},
            "score": SCORE,
        }
        chosen = dict(list(questions.items())[: 1 + i % 3])
        state = "shared state " * 40 if i % 2 else f"state number {i} " * (1 + 5 * (i % 7))
        sets.append({"state": state, "questions": chosen, "permutations": 1 + i % 3})
    return sets


@pytest.mark.parametrize("backbone", ["tiny_qwen3", "tiny_qwen3_5"])
def test_under_load_every_probability_is_that_of_the_request_alone(backbone: str) -> None:
    reference = tiny_decider(backbone=backbone)
    requests = question_sets()
    alone = [numbers(reference.answer(request).model_dump()["answers"]) for request in requests]
    stats: list[BatchStats] = []
    decider = tiny_decider(backbone=backbone)
    decide = decider.decide

    def counted(compiled: Any) -> Any:
        stats.append(BatchStats(len(compiled), 0, 0))
        return decide(compiled)

    decider.decide = counted  # type: ignore[method-assign, assignment]
    with serving(decider) as url, ThreadPoolExecutor(16) as clients:
        for _ in range(2):
            replies = list(clients.map(lambda request: post(url, request), requests))
            for (status, reply, _), wanted in zip(replies, alone, strict=True):
                assert status == 200
                assert numbers(reply["answers"]) == pytest.approx(wanted, abs=1e-5)
    assert max(each.requests for each in stats) > 3


def test_slices_together_are_the_whole() -> None:
    decider = tiny_decider()
    questions = {f"q{i}": {**CHOICE, "instructions": f"Which, {i}?"} for i in range(30)}
    request = parse_request({"state": "some state", "questions": questions, "permutations": 2})
    slices = cut(decider.model, request, 256, 1 << 20)
    assert len(slices) > 5
    assert len({each.state_key for each in slices}) == 1
    merged: dict[str, Any] = {}
    for each in slices:
        merged |= decider.decide([each.compiled])[0]
    assert list(merged) == list(questions)
    whole = decider.decide([request])[0]
    for name, decision in whole.items():
        assert merged[name].probabilities == pytest.approx(decision.probabilities, abs=1e-5)
