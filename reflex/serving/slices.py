"""A request as slices: compiled pieces that fit between other clients' requests.

Questions never see each other, so a request can be asked in pieces; the shared state comes from the
state cache after the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflex.contract import Question, Request, option_keys
from reflex.errors import ContextLengthError
from reflex.forward.groups import by_sum
from reflex.forward.tree import alone
from reflex.prompts.pieces import as_line

if TYPE_CHECKING:
    from reflex.model import DecisionModel, Prepared


@dataclass(frozen=True)
class Slice:
    """Some questions of a request, tokenised. `tokens` counts what its questions add to the state."""

    compiled: Prepared
    state_key: str
    state_tokens: int
    tokens: int


def cut(
    model: DecisionModel, request: Request, slice_tokens: int, max_tokens: int
) -> tuple[Slice, ...]:
    """Compile a request in slices of about `slice_tokens` question tokens, in the order asked.

    Raises ContextLengthError for a tree that does not fit the context or a request above `max_tokens`,
    RequestError (with the question's path) for a question that cannot be rendered or scored.
    """
    slices: list[Slice] = []
    total = 0
    too_long = ContextLengthError(
        f"the request is longer than {max_tokens} tokens, counting every order of every "
        "question (serve.max_request_tokens); send it in parts"
    )
    orders = request.permutations or model.orders.permutations
    for part in _parts(request, max(1, slice_tokens // orders)):
        try:
            compiled = model.prepare(part, max_tokens=max_tokens - total)
        except ContextLengthError:
            raise too_long from None
        for tree in (*compiled.trees, *map(alone, compiled.apart)):
            model.engine.check_length(tree)
        tokens = sum(asked.tokens for asked in compiled.asked)
        state_tokens = compiled.state_tokens
        total += tokens if slices else tokens + state_tokens
        if total > max_tokens:
            raise too_long
        key = slices[0].state_key if slices else compiled.trees[0].prefix_key
        slices.append(Slice(compiled, key, state_tokens, tokens))
    return tuple(slices)


def _parts(request: Request, slice_tokens: int) -> Iterator[Request]:
    """The request cut by estimated size; a single large question stays whole."""
    named = request.questions.items()
    for part in by_sum(named, lambda item: _estimate(item[1]), slice_tokens):
        yield request.model_copy(update={"questions": dict(part)})


def _estimate(question: Question) -> int:
    """Tokens of one order, roughly: four characters each, and the fixed words around."""
    size = len(as_line(question.instructions)) if question.instructions else 0
    if question.type == "noul":
        outcomes = (question.criteria.true, question.criteria.false) if question.criteria else ()
        size += sum(len(as_line(text)) for text in outcomes if text is not None)
    elif question.type == "choice":
        texts = (as_line(text) for text in question.criteria.values() if text is not None)
        size += sum(map(len, question.criteria)) + sum(map(len, texts))
    else:
        size += sum(len(as_line(level)) for level in question.criteria)
    return 40 + size // 4 + 4 * len(option_keys(question))
