"""`task=equivalence`: every strategy against a plain one-question forward of the same model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from reflex.errors import ConfigError

if TYPE_CHECKING:
    from reflex.model import DecisionModel, Prepared

LIMITS = {"float32": ("max_abs_logit_diff", 1e-4)}
"""bfloat16 and float16 are compared in probability: 2e-2."""


@dataclass
class Equivalence:
    """Prints one line per strategy, cold and warm; exit status 1 unless all are at most the limit.

    Raises ConfigError for a readout whose scores are not the logits of single tokens, and where every strategy
    was refused.
    """

    _target_: str = "reflex.tasks.equivalence.Equivalence"
    name: str = "equivalence"
    strategies: list[str] = field(default_factory=lambda: ["packed", "batched", "flat", "auto"])

    def run(self, cfg: DictConfig) -> int:
        import torch

        from reflex.build import build_model

        cfg = cfg.copy()
        cfg.forward.strategy = "flat"
        model = build_model(cfg)
        facts = model.backbone.facts
        compiled = [model.prepare(request) for request in probe_requests()]
        check_readouts(compiled)
        with torch.inference_mode():
            plain = plain_scores(model, compiled)
        name, limit = LIMITS.get(facts.dtype, ("max_abs_probability_diff", 2e-2))
        print(f"backbone={facts.name} dtype={facts.dtype} device={facts.device} limit={limit:g}")
        differences = []
        for strategy in self.strategies:
            if strategy == "packed" and not facts.packable:
                print(f"strategy=packed refused: {facts.why_not_packable}")
                continue
            for state, scores in run_strategy(model, cfg, strategy, compiled):
                if name == "max_abs_probability_diff":
                    pairs = [
                        (a.softmax(-1), b.softmax(-1)) for a, b in zip(scores, plain, strict=True)
                    ]
                else:
                    pairs = list(zip(scores, plain, strict=True))
                # One tensor, as its maximum keeps a NaN, which Python's `max` may drop.
                difference = float(torch.stack([(a - b).abs().max() for a, b in pairs]).max())
                differences.append(difference)
                print(f"strategy={strategy} cache={state} {name}={difference:.3g}")
        if not differences:
            raise ConfigError(
                f"task.strategies={self.strategies}: nothing was compared; name one that this backbone can use, "
                "e.g. flat"
            )
        return 0 if all(difference <= limit for difference in differences) else 1


def probe_requests() -> list[Any]:
    """Requests that cover the three types, several orders, short and long states, odd text."""
    from reflex.contract import parse_request

    long_state = {
        "ticket": "The payout failed again. " * 40,
        "history": [{"n": i} for i in range(12)],
    }
    questions = {
        "queue": {
            "type": "choice",
            "instructions": "Which team should handle this?",
            "criteria": {"payments": "payouts and refunds", "account": None, "other": "the rest"},
        },
        "escalate": {"type": "noul", "instructions": "Should a manager see this?"},
        "urgency": {"type": "score", "criteria": ["can wait", "today", "now", "an hour ago"]},
    }
    states: list[Any] = ["Hi.", long_state, "Ünïcode ☃ and <|im_end|> markup. " * 5]
    return [
        parse_request({"state": state, "questions": questions, "permutations": n})
        for state, n in zip(states, (1, 3, 2), strict=True)
    ]


def check_readouts(compiled: list[Prepared]) -> None:
    """Raise ConfigError naming the readouts that a plain forward's logits cannot be compared with."""
    asked = [each.readout for item in compiled for each in item.asked]
    others = sorted(
        {each.name for each in asked if not isinstance(getattr(each, "ids", None), dict)}
    )
    if others:
        raise ConfigError(
            f"task=equivalence: readout {', '.join(others)} has no label tokens to compare; the strategies are "
            "the same for every readout, so use readout=label_tokens"
        )


def run_strategy(
    model: DecisionModel, cfg: DictConfig, strategy: str, compiled: list[Prepared]
) -> list[tuple[str, list[Any]]]:
    """[("cold", scores), ("warm", scores)]: the same requests twice through one strategy."""
    import dataclasses

    import torch

    from reflex.build import to_object
    from reflex.forward.engine import Forward

    model.engine = Forward(
        model.backbone, dataclasses.replace(to_object(cfg.forward), strategy=strategy)
    )
    with torch.inference_mode():
        return [(state, _flat_scores(model(compiled).scores)) for state in ("cold", "warm")]


def plain_scores(model: DecisionModel, compiled: list[Prepared]) -> list[Any]:
    """Label logits from one bare transformers forward per branch: no cache, no mask, no batching."""
    import torch

    found = []
    for item in compiled:
        leaves = ((tree.prefix, leaf) for tree in item.trees for leaf in tree.segments)
        for asked in item.asked:
            for branch in asked.branches:
                prefix, leaf = next(leaves)
                ids = prefix + leaf.ids
                row = torch.tensor([ids], device=model.backbone.device)
                logits = model.backbone.model(input_ids=row, logits_to_keep=1).logits[0, -1]
                labels = [asked.readout.ids[label] for label in branch.labels]  # type: ignore[attr-defined]
                found.append(logits[labels].float())
    return found


def _flat_scores(scores: list[Any]) -> list[Any]:
    return [row for request in scores for question in request.values() for row in question.scores]
