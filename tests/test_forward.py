"""Every strategy computes what a plain forward of one path computes; caching, slicing, gradients."""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reflex.backbones.backbone import Backbone, load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.errors import ConfigError, ContextLengthError
from reflex.forward import calls, side_by_side
from reflex.forward.config import ForwardConfig
from reflex.forward.engine import Forward
from reflex.forward.state_cache import PrefixState, StateCache
from reflex.forward.tree import (
    ATTENTION_KEYS,
    Segment,
    Tree,
    branch_tokens,
    fill_rows,
    join_rows,
    lay_out,
    units,
)

FAMILIES = ("llama", "qwen3", "qwen3_5")
STRATEGIES = ("packed", "batched", "flat", "auto")


@lru_cache
def tiny(family: str) -> Backbone:
    config = BackboneConfig(name=f"tiny_{family}", source="random", path=family)
    return load_backbone(config, DeviceConfig(dtype="float32"))


def trainable(family: str) -> Backbone:
    config = BackboneConfig(name="g", source="random", path=family)
    backbone = load_backbone(config, DeviceConfig(dtype="float32"))
    backbone.model.requires_grad_(True)
    return backbone


HEAD = tuple(range(7, 27))


def random_tree(
    rng: random.Random, prefix: int, questions: int, options: int, head: tuple[int, ...] = ()
) -> Tree:
    """`head` comes before the `prefix` random tokens of the state."""

    def ids(n: int) -> tuple[int, ...]:
        return tuple(rng.randrange(300) for _ in range(n))

    segments: list[Segment] = []
    for _ in range(questions):
        top = len(segments)
        n = rng.randint(2, 12)
        segments.append(Segment(ids(n), -1, (n - 1,)))
        for _ in range(options):
            m = rng.randint(1, 4)
            segments.append(Segment(ids(m), top, tuple(range(m))))
    return Tree(head + ids(prefix), tuple(segments), len(head))


def plain(backbone: Backbone, tree: Tree) -> torch.Tensor:
    """Hidden states at all reads, one bare forward of one path at a time."""
    rows = []
    with torch.inference_mode():
        for index, segment in enumerate(tree.segments):
            above = tree.segments[segment.parent].ids if segment.parent >= 0 else ()
            head = tree.prefix + above
            ids = torch.tensor([head + segment.ids])
            hidden = backbone.decoder(input_ids=ids, use_cache=False).last_hidden_state[0]
            rows += [hidden[len(head) + read] for read in tree.segments[index].reads]
    return torch.stack(rows)


def difference(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_equal_a_plain_forward_cold_and_warm(family: str, strategy: str) -> None:
    backbone, rng = tiny(family), random.Random(1)
    config = ForwardConfig(strategy=strategy, row_tokens=24, max_tokens=96, crossover_tokens=30)
    if strategy == "packed" and family == "qwen3_5":
        with pytest.raises(ConfigError, match=r"linear_attention layers ignore a block mask"):
            Forward(backbone, config)
        return
    trees = [
        random_tree(rng, p, q, o, head)
        for p, q, o, head in [
            (40, 3, 0, ()), (5, 1, 4, HEAD), (70, 2, 3, HEAD), (20, 6, 0, ()), (3, 1, 0, HEAD[:4]),
        ]
    ]  # fmt: skip
    wanted = [plain(backbone, tree) for tree in trees]
    forward = Forward(backbone, config)
    with torch.inference_mode():
        cold, warm = forward.run(trees), forward.run(trees)
    assert difference(cold.hidden, wanted) < 1e-4
    assert difference(warm.hidden, wanted) < 1e-4
    assert not any(cold.cache_hits)
    shared = {"packed", "batched"}
    assert all(warm.cache_hits) == (set(warm.strategies) <= shared)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(0, 6),
    st.integers(8, 200),
)
def test_any_tree_in_any_slicing(
    seed: int, prefix: int, questions: int, options: int, size: int
) -> None:
    backbone = tiny("llama")
    tree = random_tree(random.Random(seed), prefix, questions, options)
    forward = Forward(
        backbone,
        ForwardConfig(
            strategy="packed", row_tokens=size, max_tokens=size, max_mask=4 * size * size
        ),
    )
    with torch.inference_mode():
        assert difference(forward.run([tree]).hidden, [plain(backbone, tree)]) < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_flow_and_equal_the_flat_ones(family: str) -> None:
    backbone = trainable(family)
    trees = [
        random_tree(random.Random(5), 20, 2, 2, HEAD),
        random_tree(random.Random(6), 9, 1, 0, HEAD),
        random_tree(random.Random(7), 5, 2, 1),
    ]
    gradients, names = [], []
    for strategy in ("auto", "flat"):
        result = Forward(backbone, ForwardConfig(strategy=strategy)).run(trees)
        backbone.zero_grad()
        torch.cat(result.hidden).square().mean().backward()
        gradients.append(
            torch.cat([p.grad.flatten() for p in backbone.parameters() if p.grad is not None])
        )
        names.append(set(result.strategies))
    assert names == [{"flat"} if family == "qwen3_5" else {"tree_rows"}, {"flat"}]
    scale = gradients[1].abs().max()
    assert float((gradients[0] - gradients[1]).abs().max() / scale) < 1e-4


def test_long_branches_of_one_tree_stand_in_rows_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbone, rng = trainable("llama"), random.Random(4)
    branches = [tuple(rng.randrange(300) for _ in range(90)) for _ in range(3)]
    tree = Tree((1, 2, 3), tuple(Segment(ids, -1, (89,)) for ids in branches))
    assert branch_tokens(3) < 90
    seen: list[int] = []
    run = calls.run_tree_rows

    def counted(backbone: Backbone, group: Any) -> torch.Tensor:
        seen.extend(len(row.ids) for row in group)
        return run(backbone, group)

    monkeypatch.setattr(calls, "run_tree_rows", counted)
    for width, rows in ((64, [93, 93, 93]), (200, [183, 93]), (300, [273])):
        seen.clear()
        found = Forward(backbone, ForwardConfig(tree_row_tokens=width)).run([tree])
        assert seen == rows
        hidden = [each.detach() for each in found.hidden]
        assert difference(hidden, [plain(backbone, tree)]) < 1e-4


@given(st.integers(1, 2000), st.integers(1, 10**5))
def test_branch_tokens_cost_least(prefix: int, branches: int) -> None:
    def cost(beside: float) -> float:
        return branches / beside * (prefix + beside) * (1 + (prefix + beside) / ATTENTION_KEYS)

    best = branch_tokens(prefix)
    assert cost(best) <= min(cost(best * 1.2), cost(best / 1.2))


def test_trees_in_one_row_share_the_prompts_own_words() -> None:
    trees = [random_tree(random.Random(i), 5, 1, 2, HEAD) for i in range(3)]
    rows = [
        lay_out(i, tree, units(tree, 99), 10 * i, with_prefix=True) for i, tree in enumerate(trees)
    ]
    size = sum(tree.unique_tokens for tree in trees) - 2 * len(HEAD)
    (group,) = fill_rows(rows, size, len(HEAD))
    row = join_rows(group, len(HEAD))
    assert len(row.ids) == size
    assert row.ids[: len(HEAD)] == HEAD
    assert row.ends[: len(HEAD)] == (size,) * len(HEAD)
    second = size - len(group[2].ids) - len(group[1].ids) + 2 * len(HEAD)
    assert row.positions[second] == len(HEAD)
    assert row.ids[second : second + 5] == group[1].ids[len(HEAD) : len(HEAD) + 5]
    assert len(fill_rows(rows, size - 1, len(HEAD))) == 2


def test_a_dropped_cache_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails when a library upgrade makes the cache argument a silent no-op."""
    backbone = tiny("llama")
    tree = random_tree(random.Random(2), 30, 2, 0)
    monkeypatch.setattr(backbone, "cache_argument", "renamed_cache")
    with torch.inference_mode(), pytest.raises(Exception, match="cache"):
        Forward(backbone, ForwardConfig(strategy="packed")).run([tree])


def test_the_cached_state_is_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeroing the cached keys and values must change the answer: the cache is really used."""
    backbone = tiny("llama")
    tree = random_tree(random.Random(2), 30, 2, 0)
    forward = Forward(backbone, ForwardConfig(strategy="packed"))
    with torch.inference_mode():
        cold = forward.run([tree]).hidden[0]
        state = forward.cache.get(tree.prefix_key)
        assert state is not None
        for layer in state.cache.layers:
            layer.keys.zero_()
            layer.values.zero_()
        assert float((forward.run([tree]).hidden[0] - cold).abs().max()) > 1e-2


def test_tokens_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm requests prefill nothing; equal prefixes in one run are prefilled once."""
    backbone = tiny("qwen3")
    tree = random_tree(random.Random(3), 50, 4, 0)
    prefilled: list[int] = []
    real = calls.prefill

    def counting(b: Backbone, prefixes: list[tuple[int, ...]], head: Any = None) -> list:
        prefilled.extend(len(prefix) for prefix in prefixes)
        return real(b, prefixes, head)

    monkeypatch.setattr(calls, "prefill", counting)
    forward = Forward(backbone, ForwardConfig(strategy="packed"))
    with torch.inference_mode():
        forward.run([tree, tree])
        forward.run([tree])
    assert prefilled == [50]
    assert (forward.cache.hits, forward.cache.misses) == (1, 1)


def tokens_of_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the padded tokens of every model call."""
    read: list[int] = []
    real = calls._call

    def counting(b: Backbone, **kwargs: torch.Tensor) -> torch.Tensor:
        read.append(kwargs["input_ids"].numel())
        return real(b, **kwargs)

    monkeypatch.setattr(calls, "_call", counting)
    return read


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("strategy", ["flat", "batched"])
def test_the_prompts_own_words_are_read_once(
    monkeypatch: pytest.MonkeyPatch, family: str, strategy: str
) -> None:
    """All calls together read the head once, over several runs and states."""
    backbone = tiny(family)
    read = tokens_of_calls(monkeypatch)
    forward = Forward(backbone, ForwardConfig(strategy=strategy))
    trees = [random_tree(random.Random(i), 9, 1, 0, HEAD) for i in range(2)]
    with torch.inference_mode():
        forward.run(trees[:1])
        forward.run(trees[1:])
    assert sum(read) == len(HEAD) + sum(tree.unique_tokens - len(HEAD) for tree in trees)


@pytest.mark.parametrize(
    ("family", "strategy", "most"),
    [("llama", "flat", 200), ("llama", "packed", 200), ("qwen3_5", "batched", 800)],
)
def test_calls_in_flight_stay_within_the_budget_together(
    monkeypatch: pytest.MonkeyPatch, family: str, strategy: str, most: int
) -> None:
    """Padded tokens of all model calls that run at once, copies of a batched state included; a prefill's
    budget is `max_tokens` under every strategy."""
    backbone, lock = tiny(family), threading.Lock()
    in_flight: list[int] = []
    seen: list[tuple[int, float]] = []
    real = calls._call

    def counting(b: Backbone, **kwargs: Any) -> torch.Tensor:
        rows, width = kwargs["input_ids"].shape
        positions = kwargs.get("position_ids", torch.zeros(1))
        prefill = int(positions.min()) == 0
        if strategy == "batched":
            width = int(positions.max()) + 1
        with lock:
            in_flight.append(rows * width)
            seen.append((len(in_flight), sum(in_flight) / (200 if prefill else most)))
        time.sleep(0.002)
        result = real(b, **kwargs)
        with lock:
            in_flight.remove(rows * width)
        return result

    monkeypatch.setattr(calls, "_call", counting)
    monkeypatch.setattr(side_by_side, "CPU_CALL_TOKENS", 20)
    rng = random.Random(8)
    trees = [random_tree(rng, 130, 1, 0) for _ in range(4)]  # more than a call's share: alone
    trees += [random_tree(rng, 70, 34, 0), *(random_tree(rng, 38, 1, 0) for _ in range(4))]
    config = ForwardConfig(strategy=strategy, max_tokens=200, row_tokens=40)
    before = torch.get_num_threads()
    try:
        with torch.inference_mode():
            torch.set_num_threads(1)
            wanted = Forward(backbone, config).run(trees).hidden
            assert max(count for count, _ in seen) == 1
            torch.set_num_threads(4)
            found = Forward(backbone, config).run(trees).hidden
    finally:
        torch.set_num_threads(before)
    assert difference(found, wanted) < 1e-4
    assert max(count for count, _ in seen) > 1
    assert max(share for _, share in seen) <= 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", [(), HEAD])
def test_a_prefix_above_the_budget_is_read_in_slices(
    monkeypatch: pytest.MonkeyPatch, family: str, head: tuple[int, ...]
) -> None:
    backbone, budget = tiny(family), 40
    trees = [random_tree(random.Random(9), 3 * budget, 1, 0, head)]
    trees += [random_tree(random.Random(i), 5, 1, 0, head) for i in range(2)]
    wanted = [plain(backbone, tree) for tree in trees]
    read = tokens_of_calls(monkeypatch)
    forward = Forward(backbone, ForwardConfig(max_tokens=budget))
    with torch.inference_mode():
        cold, warm = forward.run(trees), forward.run(trees)
    assert max(read) == budget

    def answers(hidden: list[torch.Tensor]) -> list[torch.Tensor]:
        return [backbone.label_logits(each, range(65, 75)).softmax(-1) for each in hidden]

    for found in (cold, warm):
        assert difference(found.hidden, wanted) < 1e-4
        assert difference(answers(found.hidden), answers(wanted)) < 1e-5
    assert warm.cache_hits == [True, False, False]


def test_a_state_longer_than_the_context_is_refused() -> None:
    tree = Tree(tuple([1] * 5000), (Segment((1, 2), -1, (1,)),))
    with pytest.raises(
        ContextLengthError, match=r"5000 tokens.*context of tiny_llama \(4096 tokens\)"
    ):
        Forward(tiny("llama"), ForwardConfig()).run([tree])


def test_auto_shares_the_prefix_only_where_it_pays() -> None:
    forward = Forward(tiny("llama"), ForwardConfig(crossover_tokens=100))
    trees = [random_tree(random.Random(4), 10, 2, 0), random_tree(random.Random(4), 90, 3, 0)]
    with torch.inference_mode():
        assert forward.run(trees).strategies == ["flat", "packed"]


def test_layout_of_a_known_tree() -> None:
    tree = Tree(
        (1, 2), (Segment((3, 4), -1, (1,)), Segment((5,), 0, (0,)), Segment((6, 7), 0, (1,)))
    )
    row = lay_out(0, tree, units(tree, 100), 10, with_prefix=True)
    assert row.ids == (1, 2, 3, 4, 5, 6, 7)
    assert row.positions == (0, 1, 2, 3, 4, 4, 5)
    assert row.ends == (7, 7, 7, 7, 5, 7, 7)
    assert row.reads == ((3, 10), (4, 11), (6, 12))
    mask = calls.block_mask([row], [0], torch.device("cpu"))[0, 0]
    assert mask[5].tolist() == [True, True, True, True, False, True, False]
    assert tree.reread_tokens == 4
    assert tree.longest == 6


def test_state_cache_keeps_to_its_budget() -> None:
    backbone = tiny("llama")
    states = [calls.prefill(backbone, [(i, i + 1, i + 2)])[0] for i in range(3)]
    cache = StateCache(int(states[0].nbytes * 2.5))
    for name, state in zip("abc", states, strict=True):
        cache.put(name, state)
    assert cache.get("a") is None
    assert cache.get("c") is states[2]
    assert (len(cache), cache.hits, cache.misses) == (2, 1, 1)
    assert cache.nbytes <= cache.max_bytes
    StateCache(1).put("a", states[0])
    assert len(StateCache(0)) == 0


def test_state_cache_under_many_threads() -> None:
    """Neither a value of another key nor a byte too many, whoever puts and gets at once."""
    cache = StateCache(100)
    sizes = {
        f"k{i}": 7 * i for i in range(1, 17)
    }  # from 7 to 112 bytes: the last two are never kept
    states = {key: PrefixState(key, size, size) for key, size in sizes.items()}
    keys = list(sizes)
    wrong: list[object] = []
    got = [0] * 6

    def hammer(number: int) -> None:
        rng = random.Random(number)
        for _ in range(1500):
            key = rng.choice(keys)
            cache.put(key, states[key])
            other = rng.choice(keys)
            state = cache.get(other)
            got[number] += state is not None
            if state is not None and state is not states[other]:
                wrong.append((other, state))
            with cache._lock:
                held = sum(state.nbytes for state in cache._states.values())
                if not held == cache.nbytes <= cache.max_bytes:
                    wrong.append((held, cache.nbytes))
            if rng.random() < 0.01:
                cache.clear()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(hammer, range(6)))
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert cache.hits == sum(got) > 0
    assert cache.hits + cache.misses == 6 * 1500
    assert "k16" not in cache
