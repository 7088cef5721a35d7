"""A served answer as a decision: its probabilities are all there is, so scores are their logarithms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reflex.contract import NoulAnswer, Question, Request, Response, option_keys
from reflex.errors import RemoteError

if TYPE_CHECKING:
    from reflex.decider import Decision

SUM_SLACK = 0.05
"""How far from 1 a distribution may sum: servers that round to two decimals are that far off."""

SUM_EXACT = 1e-9
"""Within this a distribution is kept bit for bit."""


def probabilities_of(question: Question, answer: Any) -> tuple[float, ...]:
    """The distribution over `option_keys(question)`, summing to 1.

    Raises RemoteError saying what is wrong with an answer that is none.
    """
    if answer.type != question.type:
        raise RemoteError(f"answers a {question.type} question with {answer.type}")
    keys = option_keys(question)
    if isinstance(answer, NoulAnswer):
        found: Mapping[str, float] = {"true": answer.noul, "false": 1 - answer.noul}
    else:
        found = answer.probabilities
    if set(found) != set(keys):
        odd = sorted(set(found) ^ set(keys))[0]
        raise RemoteError(f"option {odd!r} is missing, or was not asked for")
    values = [float(found[key]) for key in keys]
    if not all(math.isfinite(p) and -SUM_EXACT <= p <= 1 + SUM_EXACT for p in values):
        raise RemoteError("a probability is not a number from 0 to 1")
    total = math.fsum(values)
    if abs(total - 1) > SUM_SLACK:
        raise RemoteError(f"probabilities sum to {total:.4g}, not 1")
    if abs(total - 1) <= SUM_EXACT:
        return tuple(values)
    return tuple(max(p, 0.0) / total for p in values)


def distributions(request: Request, response: Response) -> dict[str, tuple[float, ...]]:
    """`probabilities_of` for every question. Raises RemoteError naming the question."""
    found = {}
    for name, question in request.questions.items():
        if name not in response.answers:
            raise RemoteError(f"question {name!r} is not answered")
        try:
            found[name] = probabilities_of(question, response.answers[name])
        except RemoteError as error:
            raise RemoteError(f"question {name!r}: {error}") from None
    return found


def decisions_of(
    request: Request, response: Response, readouts: Mapping[str, str]
) -> dict[str, Decision]:
    """Decisions with one order and scores log p, which T = 1 turns back into the probabilities.

    readouts: type → readout as the server names it. Token counts are 0 where the server does not tell
    them apart. Raises RemoteError as `distributions` does.
    """
    from reflex.decider import Decision

    usage = response.usage.model_dump()
    questions = usage.get("x_question_tokens", 0) if len(request.questions) == 1 else 0
    found = {}
    for name, values in distributions(request, response).items():
        keys = option_keys(request.questions[name])
        answer = response.answers[name]
        found[name] = Decision(
            question_id=name,
            type=answer.type,
            readout=str(readouts.get(answer.type, "remote")),
            keys=keys,
            order_keys=(keys,),
            scores=(tuple(math.log(p) if p > 0 else -math.inf for p in values),),
            order_probabilities=(values,),
            probabilities=values,
            temperature=1.0,
            bucket=(answer.model_extra or {}).get("x_bucket"),
            state_tokens=int(usage.get("x_state_tokens", response.usage.input_tokens)),
            question_tokens=int(questions),
            cache_hit=bool(usage.get("x_state_cache_hit", False)),
        )
    return found
