"""A request on its way through the model: its questions, their branches, and the trees they lie in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reflex.contract import Question
from reflex.forward.tree import Tree
from reflex.prompts.prompt import Branch
from reflex.readouts.base import Readout


@dataclass(frozen=True)
class Asked:
    """A question on its way through a tree: its branches and where their segments lie."""

    question_id: str
    question: Question
    readout: Readout
    branches: tuple[Branch, ...]
    spans: tuple[tuple[int, int], ...]
    """Per branch, [first, last) of its reads within the tree's reads."""
    tokens: int
    notes: dict[str, Any] | None = None
    """What is told with the answer, such as a router's choice."""


@dataclass(frozen=True)
class Prepared:
    """A request ready for the forward: one tree over its state, or (layout `schema_first`) one per question,
    order and page, over that question.

    state_tokens: of the prefix that its questions share; 0 where each of them reads the state itself.
    apart: distinct token sequences that its readouts have read beside the trees (see `Readout.apart`); a
    question's tokens count those that no question before it has.
    """

    trees: tuple[Tree, ...]
    asked: tuple[Asked, ...]
    state_tokens: int
    apart: tuple[tuple[int, ...], ...] = ()

    @property
    def tree(self) -> Tree:
        """The tree over the state (layout `state_first`)."""
        (tree,) = self.trees
        return tree

    @property
    def unique_tokens(self) -> int:
        return sum(tree.unique_tokens for tree in self.trees)

    @property
    def reread_tokens(self) -> int:
        return sum(tree.reread_tokens for tree in self.trees)
