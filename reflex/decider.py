"""`Decider`: the model with its calibration, answering requests. The in-process door (`reflex.load`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from reflex.calibration.none import Calibrator
from reflex.contract import Request, Response, Usage, build_answer, parse_request
from reflex.model import DecisionModel, Prepared
from reflex.readouts import merge
from reflex.readouts.base import OptionScores


@dataclass(frozen=True)
class Decision:
    """One question, decided. Plain Python floats; `probabilities` is what is served.

    order_probabilities: (orders × keys) after temperature. bucket: calibration bucket, None if none.
    """

    question_id: str
    type: str
    readout: str
    keys: tuple[str, ...]
    order_keys: tuple[tuple[str, ...], ...]
    scores: tuple[tuple[float, ...], ...]
    order_probabilities: tuple[tuple[float, ...], ...]
    probabilities: tuple[float, ...]
    temperature: float
    bucket: str | None
    state_tokens: int
    question_tokens: int
    cache_hit: bool
    wordings: int = 1
    notes: dict[str, Any] | None = None

    @property
    def disagreement(self) -> float:
        return merge.disagreement(np.asarray(self.order_probabilities))

    @property
    def wording_disagreement(self) -> float:
        """How far the wordings are from their mean; 0 with one wording."""
        return merge.wording_disagreement(np.asarray(self.order_probabilities), self.wordings)


class Decider:
    """Answers requests: scores from the model, temperatures from the calibrator, merged over orders.

    The model is put into evaluation mode, heads included: measured and served answers are the same.
    """

    def __init__(self, model: DecisionModel, calibrator: Calibrator, name: str) -> None:
        self.model = model.eval()
        self.calibrator = calibrator
        self.name = name

    @torch.inference_mode()
    def decide(self, requests: Sequence[Request | Prepared]) -> list[dict[str, Decision]]:
        """Decisions of every question of every request, through one call of the model's forward."""
        output = self.model(requests)
        decided = []
        for i, scores in enumerate(output.scores):
            counts = output.question_tokens[i]
            decided.append(
                {
                    question_id: self._decide(
                        option_scores,
                        state_tokens=output.state_tokens[i],
                        question_tokens=counts[question_id],
                        cache_hit=output.cache_hits[i],
                    )
                    for question_id, option_scores in scores.items()
                }
            )
        return decided

    def _decide(self, scores: OptionScores, **costs: Any) -> Decision:
        temperature, bucket = self.calibrator.temperature(
            scores.type, scores.readout, len(scores.keys)
        )
        raw = [row.tolist() for row in scores.scores]
        corrected = self.calibrator.adjust(
            scores.type, scores.readout, scores.keys, scores.order_keys, raw
        )
        per_order = merge.order_distributions(
            corrected, scores.order_keys, scores.keys, temperature, scores.expand
        )
        return Decision(
            question_id=scores.question_id,
            type=scores.type,
            readout=scores.readout,
            keys=scores.keys,
            order_keys=scores.order_keys,
            scores=tuple(tuple(row) for row in raw),
            order_probabilities=tuple(tuple(row) for row in per_order.tolist()),
            probabilities=tuple(merge.merge(per_order).tolist()),
            temperature=temperature,
            bucket=bucket,
            wordings=scores.wordings,
            notes=scores.notes,
            **costs,
        )

    def answer(self, request: Request | Mapping[str, Any]) -> Response:
        """Answer one request (a dict is validated first). Raises RequestError and its siblings."""
        return self.answer_many([request])[0]

    def answer_many(self, requests: Sequence[Request | Mapping[str, Any]]) -> list[Response]:
        """Answer several requests through one forward."""
        parsed = [r if isinstance(r, Request) else parse_request(r) for r in requests]
        return [
            self.respond(request, decisions)
            for request, decisions in zip(parsed, self.decide(parsed), strict=True)
        ]

    def respond(self, request: Request, decisions: Mapping[str, Decision]) -> Response:
        """The wire response for decisions already made."""
        answers = {}
        for question_id, question in request.questions.items():
            decision = decisions[question_id]
            extras: dict[str, Any] = {}
            if len(decision.order_keys) > 1:
                extras["x_disagreement"] = decision.disagreement
            if decision.wordings > 1:
                extras["x_wording_disagreement"] = decision.wording_disagreement
            extras |= decision.notes or {}
            if decision.bucket is not None:
                extras["x_bucket"] = decision.bucket
            if request.x_orders:
                extras["x_orders"] = [
                    dict(zip(decision.keys, row, strict=True))
                    for row in decision.order_probabilities
                ]
            named = dict(zip(decision.keys, decision.probabilities, strict=True))
            answers[question_id] = build_answer(question, named, extras)
        any_decision = next(iter(decisions.values()))
        questions = sum(decision.question_tokens for decision in decisions.values())
        usage = Usage(
            input_tokens=any_decision.state_tokens + questions,
            x_state_tokens=any_decision.state_tokens,
            x_question_tokens=questions,
            x_state_cache_hit=any_decision.cache_hit,
        )
        return Response(model=self.name, answers=answers, usage=usage)
