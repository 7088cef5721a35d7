"""Kept states: bytes and back on every kind of layer, verification, eviction, a restart."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from reflex.decider import Decider
from reflex.forward import calls
from reflex.forward.state_cache import tensors_of
from reflex.serving.config import ServeConfig
from reflex.serving.disk_cache import MAGIC, DiskCache, TieredStateCache, pack, unpack
from reflex.serving.engine import Engine, state_namespace
from scripts.serve_process import numbers
from tests.serving import CHOICE, NOUL, post, serving, tiny_decider

LONG = {"log": [f"event number {i} happened" for i in range(40)]}
REQUEST = {"state": LONG, "questions": {"n": NOUL, "c": CHOICE}}


def tiered(decider: Decider, folder: Path, megabytes: int = 64) -> TieredStateCache:
    disk = DiskCache(folder, state_namespace(decider), megabytes << 20)
    cache = TieredStateCache(64 << 20, disk, decider.model.backbone)
    decider.model.engine.cache = cache
    return cache


def answers(decider: Decider, request: Any = REQUEST) -> list[float]:
    return numbers(decider.answer(request).model_dump()["answers"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("backbone", ["tiny_llama", "tiny_qwen3", "tiny_qwen3_5"])
def test_a_state_survives_as_bytes(backbone: str, dtype: str) -> None:
    model = tiny_decider(f"device.dtype={dtype}", backbone=backbone).model.backbone
    with torch.inference_mode():
        (state,) = calls.prefill(model, [list(range(5, 60))])
        again = unpack(pack(state), model)
        suffixes = [[7, 8, 9], [4, 5]]
        one = calls.continue_batched(model, suffixes, state)
        two = calls.continue_batched(model, suffixes, again)
    assert torch.equal(one, two)
    assert (again.length, again.nbytes) == (55, state.nbytes)
    for a, b in zip(tensors_of(state.cache), tensors_of(again.cache), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)


@pytest.mark.parametrize("backbone", ["tiny_llama", "tiny_qwen3_5"])
def test_the_next_process_reads_what_this_one_wrote(backbone: str, tmp_path: Path) -> None:
    first = tiny_decider(backbone=backbone)
    cache = tiered(first, tmp_path)
    wanted = answers(first)
    cache.flush()
    assert cache.disk.writes == 1
    second = tiny_decider(backbone=backbone)
    other = tiered(second, tmp_path)
    assert answers(second) == pytest.approx(wanted, abs=1e-6)
    assert (other.disk.hits, other.disk.misses) == (1, 0)
    response = second.answer(REQUEST)
    assert response.usage.model_extra
    assert response.usage.model_extra["x_state_cache_hit"] is True


def test_another_model_prompt_or_dtype_is_another_state(tmp_path: Path) -> None:
    first = tiny_decider()
    tiered(first, tmp_path).flush()
    answers(first)
    first.model.engine.cache.flush()  # type: ignore[attr-defined]
    for other in (
        tiny_decider("backbone.seed=1"),
        tiny_decider("device.dtype=bfloat16"),
        tiny_decider("+prompt.texts.question_heading=Ask"),
    ):
        cache = tiered(other, tmp_path)
        answers(other)
        assert cache.disk.hits == 0


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "header", "vanish"])
def test_a_damaged_file_costs_time_and_never_an_answer(damage: str, tmp_path: Path) -> None:
    first = tiny_decider()
    cache = tiered(first, tmp_path)
    wanted = answers(first)
    cache.flush()
    (path,) = tmp_path.glob("*.state")
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    elif damage == "truncate":
        path.write_bytes(raw[: len(raw) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "header":
        import hashlib

        body = bytes(raw[len(MAGIC) + 32 :]).replace(b"DynamicLayer", b"StaticsLayer")
        path.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    second = tiny_decider()
    other = tiered(second, tmp_path)
    if damage == "vanish":
        path.unlink()
    assert answers(second) == pytest.approx(wanted, abs=1e-6)
    assert other.disk.hits == (1 if damage == "header" else 0)
    other.flush()
    assert path.read_bytes() == bytes(raw if damage != "flip" else _unflip(raw))


def _unflip(raw: bytearray) -> bytearray:
    raw[len(raw) // 2] ^= 1
    return raw


def test_eviction_by_size_takes_the_least_recently_used(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, {"a": 1}, 3000)
    for name in "abc":
        disk.write(name * 64, bytes(900))
        time.sleep(0.01)
    assert disk.read("a" * 64) == bytes(900)
    disk.write("d" * 64, bytes(900))
    assert "b" * 64 not in disk
    assert "a" * 64 in disk
    assert disk.nbytes <= 3000
    assert disk.evicted == 1
    assert len(list(tmp_path.iterdir())) == 3
    disk.write("e" * 64, bytes(5000))
    assert "e" * 64 not in disk
    again = DiskCache(tmp_path, {"a": 1}, 3000)
    assert again.nbytes == disk.nbytes
    assert again.read("a" * 64) == bytes(900)
    assert DiskCache(tmp_path, {"a": 2}, 3000).read("a" * 64) is None


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    name = f"{'0' * 24}-{'a' * 64}.state"
    left, writing = tmp_path / f"{name}.99.tmp", tmp_path / f"{name}.100.tmp"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    writing.write_bytes(b"half of what another process writes")
    disk = DiskCache(tmp_path, {}, 1000)
    assert list(tmp_path.iterdir()) == [writing]
    assert disk.nbytes == 0


def test_files_that_are_not_its_own_stay(tmp_path: Path) -> None:
    own = f"{'0' * 24}-{'a' * 64}.state"
    others = {
        "editor.tmp",
        "game.state",
        "x.state.99.tmp",
        f"{own}.bak",
        f"copy of {own}",
        f"{own}.tmp",
    }
    for name in others:
        (tmp_path / name).write_bytes(bytes(900))
        os.utime(tmp_path / name, (0, 0))
    disk = DiskCache(tmp_path, {"a": 1}, 2000)
    assert disk.nbytes == 0
    for name in "abc":
        disk.write(name * 64, bytes(900))
    assert disk.evicted == 1
    assert {path.name for path in tmp_path.iterdir()} > others


def test_an_empty_folder_name_is_no_folder() -> None:
    assert ServeConfig(disk_cache_dir="").disk_cache_dir is None


def test_a_disk_that_cannot_be_written_is_only_slower(tmp_path: Path) -> None:
    decider = tiny_decider()
    cache = tiered(decider, tmp_path / "states")
    for path in (tmp_path / "states").iterdir():
        path.unlink()
    os.rmdir(tmp_path / "states")
    wanted = answers(tiny_decider())
    assert answers(decider) == pytest.approx(wanted, abs=1e-6)
    cache.flush()
    assert cache.disk.writes == 0


def test_served_states_are_shared_and_survive(tmp_path: Path) -> None:
    for round_number in range(2):
        with serving(tiny_decider(), disk_cache_dir=str(tmp_path)) as url:
            hits = [
                post(url, {**REQUEST, "questions": {name: NOUL}})[1]["usage"]["x_state_cache_hit"]
                for name in ("one", "two")
            ]
            assert hits == [round_number == 1, True]


def test_an_unusable_folder_fails_loading_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = ServeConfig(disk_cache_dir=str(tmp_path / "file" / "below"), warm_up=False)
    engine = Engine(config, tiny_decider)
    engine._start()
    assert engine.status == "failed"
    assert engine.error
    assert "serve.disk_cache_dir" in engine.error
    engine.stop()
