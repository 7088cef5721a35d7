"""Wording ensembles: the same question in several words, over one state.

`prompt.wordings: [{label_ask: …}, {question_heading: …, choice_default: …}]` adds, to the style as it is, one
variant per entry. Variants are further branches of the same tree, so the state is read once; that is only
sound while the prefix is the same to the byte, which is checked and not assumed.
"""

from __future__ import annotations

from typing import Any

from reflex.errors import ConfigError
from reflex.prompts.pieces import Template

PROBE_STATE = {"probe": ["state"]}


def variants(style: Any, template: Template) -> tuple[Any, ...]:
    """The style itself, then one style per wording.

    Raises ConfigError, naming the entry, for an unknown component, one of the prefix, a variant that
    changes nothing, or one whose prefix differs anyway.
    """
    found = [style]
    prefix = style.prefix(template, PROBE_STATE)
    for index, texts in enumerate(getattr(style, "wordings", ())):
        try:
            variant = style.with_texts(texts)
        except ConfigError as error:
            raise ConfigError(f"prompt.wordings[{index}]: {error}") from None
        if variant.prefix(template, PROBE_STATE) != prefix:
            raise ConfigError(
                f"prompt.wordings[{index}]: changes the state prefix, which all wordings share"
            )
        if any(variant.words == other.words for other in found):
            raise ConfigError(
                f"prompt.wordings[{index}]: the same words as another variant; its answers would count twice"
            )
        found.append(variant)
    return tuple(found)
