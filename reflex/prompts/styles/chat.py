"""`chat`: system turn, evidence and criterion in one user turn, lettered options, answer after the turn.

The turn itself comes from the tokenizer's own chat template. Every word of ours is a named component of
`TEXTS`; a config replaces single components through `prompt.texts`. Components of the prefix are fixed
for a whole request, so all questions of a request share one state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from reflex.checks import check_choice
from reflex.contract import Choice, Noul, Question, Score, Text, option_keys
from reflex.errors import ConfigError
from reflex.prompts.pieces import Piece, Template, as_line, as_text, join

TEXTS: dict[str, str] = {
    "system_prompt": (
        "You are a careful judge. Read the evidence, then answer the question about it by naming exactly "
        "one of the listed options."
    ),
    "state_heading": "# Evidence",
    "question_heading": "# Question",
    "options_heading": "# Options",
    "noul_default": "Does the statement below hold for the evidence?",
    "noul_true": "yes",
    "noul_false": "no",
    "choice_default": "Which option fits the evidence best?",
    "score_default": "Which level fits the evidence best?",
    "score_level": "(level {i} of {n})",
    "label_ask": "Reply with the letter of the right option and nothing else.",
    "page_note": "Options {first} to {last} of {n} are listed here.",
    "rating_heading": "# Scale",
    "rating_low": "certainly no",
    "rating_high": "certainly yes",
    "rating_ask": "Reply with one digit from 0 to 8 and nothing else.",
    "yesno_ask": "Reply with yes or no and nothing else.",
    "text_ask": "Reply with the right option's text and nothing else.",
    "pointer_ask": "Judge each option below on its own.",
    "answer_cue": "Answer:",
}
LAYOUTS = ("state_first", "schema_first")
PREFIX_TEXTS = frozenset({"system_prompt", "state_heading"})
"""Components the state prefix is made of: they cannot differ between questions of one request."""


@dataclass
class ChatStyle:
    """Config and renderer in one: `texts` overrides named components, `layout` places the state.

    layout: `state_first` (the state is read once for all questions) or `schema_first` (a question is read
    once for many states, and every question of a request reads the state again).

    `wordings`: further sets of question-side components; every question is asked in each of them too, and
    the answers are averaged (reflex/prompts/wording.py). Other styles derive from this one and replace
    what they render differently.
    """

    DEFAULTS: ClassVar[Mapping[str, str]] = TEXTS

    _target_: str = "reflex.prompts.styles.chat.ChatStyle"
    name: str = "chat"
    layout: str = "state_first"
    texts: dict[str, str] = field(default_factory=dict)
    wordings: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.texts) - set(TEXTS))
        if unknown:
            raise ConfigError(
                f"prompt.texts.{unknown[0]}: no such component; use one of {', '.join(sorted(TEXTS))}"
            )
        check_choice("prompt.layout", self.layout, LAYOUTS)
        self.words: dict[str, str] = {**self.DEFAULTS, **self.texts}

    # -- identity ------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """sha256 over everything that shapes the text besides the tokenizer's template."""
        facts: dict[str, Any] = {"style": self.name, "layout": self.layout, "texts": self.words}
        if self.wordings:
            facts["wordings"] = [dict(texts) for texts in self.wordings]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def with_texts(self, texts: Mapping[str, str]) -> Self:
        """The same style with question-side components replaced. Raises on a prefix component."""
        fixed = sorted(PREFIX_TEXTS & set(texts))
        if fixed:
            raise ConfigError(
                f"{fixed[0]}: a component of the prefix cannot vary inside a request; "
                "set it in prompt.texts"
            )
        return replace(self, texts={**self.texts, **texts}, wordings=[])

    # -- rendering -----------------------------------------------------------------------------

    def label_prefix(self, template: Template) -> str:
        return template.label_prefix

    @property
    def schema_first(self) -> bool:
        return self.layout == "schema_first"

    def opening(self, template: Template) -> tuple[Piece, ...]:
        """The system turn: what every prompt begins with."""
        gap = "" if template.answers_after_turn else "\n\n"
        return (
            Piece(template.before, control=True),
            Piece(self.words["system_prompt"] + gap),
            Piece(template.between, control=True),
        )

    def closing(self, template: Template) -> tuple[Piece, ...]:
        """What stands before the answer: the template's tail, or the cue where there is none."""
        cue = "" if template.answers_after_turn else f"\n\n{self.words['answer_cue']}"
        return (Piece(cue), Piece(template.after, control=True))

    def evidence(self, state: Text) -> str:
        return f"{self.words['state_heading']}\n{as_text(state)}"

    def prefix(self, template: Template, state: Text) -> tuple[Piece, ...]:
        """System turn and evidence: everything before the first word of a question (`state_first`)."""
        return join([*self.opening(template), Piece(f"{self.evidence(state)}\n\n")])

    def state_branch(self, template: Template, state: Text) -> tuple[Piece, ...]:
        """The evidence behind a question, up to the answer (`schema_first`)."""
        return join([Piece(self.evidence(state)), *self.closing(template)])

    def branch(
        self,
        template: Template,
        question: Question,
        listed: Sequence[tuple[str, str]],
        ask: str,
        note: str = "",
        heading: str = "options_heading",
    ) -> tuple[Piece, ...]:
        """One question with its `(label, text)` lines, the ask line and the template's tail; in the layout
        `schema_first` the system turn before it, and no tail.

        An empty label lists the text by itself; `heading` is the component above the list.
        """
        parts = [f"{self.words['question_heading']}\n{self.instructions(question)}\n\n"]
        if listed:
            lines = "".join(
                f"{label}. {text}\n" if label else f"{text}\n" for label, text in listed
            )
            parts.append(f"{self.words[heading]}\n{lines}\n")
        parts.append("\n".join(filter(None, [note, self.words[ask]])))
        asked = "".join(parts)
        if self.schema_first:
            gap = "" if asked.endswith("\n\n") else "\n\n"
            return join([*self.opening(template), Piece(asked + gap)])
        return join([Piece(asked), *self.closing(template)])

    def instructions(self, question: Question) -> str:
        """What is asked: the caller's instructions, or the style's default for the type."""
        if question.instructions:
            return as_line(question.instructions)
        return self.words[f"{question.type}_default"]

    def option_texts(self, question: Question) -> tuple[str, ...]:
        """The text of every option in the caller's order, without a label."""
        words = self.words
        if isinstance(question, Noul):
            described = question.criteria
            outcomes = (
                (words["noul_true"], described.true if described else None),
                (words["noul_false"], described.false if described else None),
            )
            return tuple(self.named(name, text) for name, text in outcomes)
        if isinstance(question, Choice):
            return tuple(self.named(name, text) for name, text in question.criteria.items())
        return self._levels(question)

    def rating_ends(self, question: Noul) -> tuple[str, str]:
        """Texts of the two ends of the 0-8 scale: certainly no, certainly yes, and what they mean."""
        described = question.criteria
        return (
            self.named(self.words["rating_low"], described.false if described else None),
            self.named(self.words["rating_high"], described.true if described else None),
        )

    def named(self, name: str, description: Text | None) -> str:
        """An option's name with its description behind it, or the name alone."""
        return name if description in (None, "") else f"{name}: {as_line(description)}"

    def _levels(self, question: Score) -> tuple[str, ...]:
        top = str(len(option_keys(question)) - 1)
        # Plain replacement, not a format string: an overridden component may hold any braces.
        marks = (
            self.words["score_level"].replace("{i}", str(i)).replace("{n}", top)
            for i in range(len(question.criteria))
        )
        return tuple(
            f"{mark} {as_line(level)}" for mark, level in zip(marks, question.criteria, strict=True)
        )

    def page_note(self, first: int, last: int, n: int) -> str:
        """Which options of how many a page shows (1-based)."""
        note = self.words["page_note"]
        for name, value in (("{first}", first), ("{last}", last), ("{n}", n)):
            note = note.replace(name, str(value))
        return note
