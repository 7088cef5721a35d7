"""Independent model calls on several cores: the same numbers, in order, with nothing left behind."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

from reflex.forward import side_by_side
from reflex.forward.side_by_side import beside_tokens, call_tokens, divided, run_calls
from tests import cli

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def modes() -> tuple[int, bool, bool, str]:
    return (
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        threading.current_thread().name,
    )


def test_full_rounds_get_one_core_a_call_and_the_rest_all_of_them():
    torch.set_num_threads(2)
    main = threading.current_thread().name
    with torch.inference_mode():
        found = run_calls([modes] * 5, CPU)
    assert [threads for threads, *_ in found] == [1, 1, 1, 1, 2]
    assert [name == main for *_, name in found] == [False] * 4 + [True]
    assert all(inference and not grad for _, grad, inference, _ in found)
    assert torch.get_num_threads() == 2


def test_calls_that_are_too_large_get_all_cores_and_keep_their_place():
    torch.set_num_threads(2)
    calls = [lambda i=i: (i, torch.get_num_threads()) for i in range(6)]
    assert run_calls(calls, CPU, alone={1, 4}) == [(0, 1), (1, 2), (2, 1), (3, 1), (4, 2), (5, 1)]
    assert run_calls(calls, CPU, alone={0, 1, 2, 3, 4}) == [(i, 2) for i in range(6)]


def test_calls_side_by_side_share_the_budget():
    shares = {(1, 4096): 4096, (2, 4096): 2048, (16, 4096): 512, (2, 300): 300}
    for (threads, most), tokens in shares.items():
        torch.set_num_threads(threads)
        assert beside_tokens(most) == tokens
    torch.set_num_threads(2)
    rows = [100] * 30
    assert [len(group) for group in divided(rows, int, 3000)] == [30]  # one call: nothing beside it
    assert [len(group) for group in divided(rows, int, 2000)] == [10, 10, 10]
    assert [len(group) for group in divided([1100, *rows], int, 2000)] == [1, 20, 10]


def test_results_are_in_the_order_of_the_calls():
    torch.set_num_threads(3)
    done = threading.Event()

    def slow() -> str:
        assert done.wait(30)
        return "first"

    def quick() -> str:
        done.set()
        return "second"

    assert run_calls([slow, quick, lambda: "third"], CPU) == ["first", "second", "third"]


@pytest.mark.parametrize(("device", "gradients"), [("cpu", True), ("cuda", False)])
def test_gradients_and_other_devices_run_one_after_another_here(device: str, gradients: bool):
    torch.set_num_threads(2)
    found = run_calls([modes] * 4, torch.device(device), gradients)
    assert {(threads, name) for threads, *_, name in found} == {
        (2, threading.current_thread().name)
    }


def test_an_error_is_the_callers_and_the_number_of_threads_comes_back():
    torch.set_num_threads(2)

    def fail() -> None:
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        run_calls([modes, fail, modes, modes], CPU)
    assert torch.get_num_threads() == 2


def test_the_numbers_are_the_same_every_time():
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 96)
    calls = [partial(layer, torch.randn(5 + i, 64)) for i in range(7)]
    torch.set_num_threads(2)
    with torch.no_grad():
        first, *others = [run_calls(calls, CPU) for _ in range(20)]
        torch.set_num_threads(1)
        alone = run_calls(calls, CPU)
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(first, alone, strict=True))


@pytest.mark.parametrize(
    ("threads", "lengths", "tokens"),
    [
        (2, [100] * 10, 4096),  # less than one round: one call
        (2, [100] * 20, 500),
        (2, [296] * 4, 296),  # one request of ten questions in two orders
        (2, [100] * 24, 400),  # three rounds of two calls: four rows each
        (2, [150] * 55, 600),
        (4, [100] * 41, 400),
        (2, [3000] * 3, 2048),  # no row fits the half of a call that runs beside another
        (2, [5000] * 3, 2048),
        (16, [300] * 99, 512),  # sixteen cores: 512 each, where the budget would give 256
        (1, [100] * 50, 4096),
        (2, [], 4096),
    ],
)
def test_rows_fill_rounds_of_equal_calls(threads: int, lengths: list[int], tokens: int):
    torch.set_num_threads(threads)
    assert call_tokens(lengths, 4096) == tokens


@pytest.mark.slow
def test_a_cell_on_two_threads_is_the_same_twice_and_alone(
    tmp_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded model through the command, as `make run` reads it on two cores."""
    used: list[int] = []
    pool = side_by_side._cores

    def counted(threads: int) -> ThreadPoolExecutor:
        used.append(threads)
        return pool(threads)

    monkeypatch.setattr(side_by_side, "_cores", counted)
    words = ("device.threads=2", "benchmark.limit=8", "tracker=none")
    assert cli.run(*words, "-m", "orders=one,two").status == 0
    assert set(used) == {2}
    swept = cli.cells(tmp_runs)
    kept = (swept["two"] / "predictions.parquet").read_bytes()
    assert set(swept) == {"one", "two"}
    shutil.rmtree(tmp_runs)
    assert cli.run(*words, "orders=two").status == 0
    assert (cli.cells(tmp_runs)["two"] / "predictions.parquet").read_bytes() == kept
