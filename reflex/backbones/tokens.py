"""Text to token ids, with control tokens only where the template put them.

Ordinary text is encoded by a copy of the tokenizer that knows no added tokens at all. (The tokenizer's own
`split_special_tokens` still matches added tokens that are not flagged special, such as `</think>`.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from tokenizers import Tokenizer

from reflex.errors import BackboneError, ReadoutError
from reflex.prompts.pieces import Piece, Template

DAY = datetime(2026, 1, 1)
"""The day that templates with a date in them are told."""

_CLOCK = "strftime_now"
_CODES = [*(f"%{letter}" for letter in "aAbBcdeFHIjmMpSTuUwWxXyY"), "%-d", "%-m", "%-H", "%-I"]

_SYSTEM, _USER = "\x00reflex-system\x00", "\x00reflex-user\x00"


class PromptTokenizer:
    """Encodes pieces and checks labels; `template` is the tokenizer's chat turn, taken apart."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise BackboneError(
                f"{type(tokenizer).__name__} is not a fast tokenizer: reflex needs a tokenizer.json"
            )
        self._control = tokenizer
        self._plain = plain_copy(backend)
        self._control_ids = frozenset(tokenizer.get_added_vocab().values())
        self.template = chat_template(tokenizer)
        bos = tokenizer.bos_token_id
        self._bos = () if bos is None or not _adds_bos(tokenizer) else (bos,)

    def encode(self, pieces: Iterable[Piece], *, start: bool = False) -> tuple[int, ...]:
        """Token ids of `pieces`; `start` adds the beginning-of-text token the tokenizer wants in front of
        text that is not in a chat turn (a template writes its own)."""
        pieces = tuple(pieces)
        bare = start and not any(piece.control for piece in pieces)
        ids: list[int] = list(self._bos) if bare else []
        for piece in pieces:
            if piece.control:
                ids += self._control.encode(piece.text, add_special_tokens=False)
            else:
                ids += self.encode_plain(piece.text)
        return tuple(ids)

    def encode_plain(self, text: str) -> list[int]:
        """Ids of ordinary text; never a control token. Raises BackboneError if one comes out."""
        # Lone surrogates are legal in JSON strings and illegal in UTF-8; they become `?`.
        clean = text.encode("utf-8", "replace").decode() if not text.isascii() else text
        ids = self._plain.encode(clean, add_special_tokens=False).ids
        if not self._control_ids.isdisjoint(ids):
            raise BackboneError(
                "this tokenizer turns ordinary text into control tokens even without its added tokens; "
                "it cannot be used safely"
            )
        return ids

    def label_id(self, label: str) -> int:
        """The id of a label that is exactly one token. Raises ReadoutError otherwise."""
        ids = self.encode_plain(label)
        if len(ids) != 1:
            raise ReadoutError(
                f"label {label!r} is {len(ids)} tokens in this tokenizer; a label must be one token: "
                "choose other labels (readout.label_tokens.labels)"
            )
        return ids[0]

    def single_tokens(self, labels: Sequence[str], prefix: str) -> tuple[str, ...]:
        """Those of `labels` that are one token behind `prefix`, in order."""
        return tuple(label for label in labels if len(self.encode_plain(prefix + label)) == 1)


def plain_copy(backend: Tokenizer) -> Tokenizer:
    """A copy of a `tokenizers` tokenizer without added tokens, post-processing, padding or truncation."""
    spec = json.loads(backend.to_str())
    spec["added_tokens"] = []
    spec["post_processor"] = None
    spec["padding"] = spec["truncation"] = None
    return Tokenizer.from_str(json.dumps(spec))


def chat_template(tokenizer: Any) -> Template:
    """Take the tokenizer's template apart around a system and a user text.

    The think block is closed empty where the template has one. A template that refuses a system turn gets
    the system text at the head of the user turn. No template at all: plain text ending in an answer cue.
    Raises BackboneError for a template that shows no such text.
    """
    if not getattr(tokenizer, "chat_template", None):
        return Template("", "", "", answers_after_turn=False)
    system = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
    merged = [{"role": "user", "content": f"{_SYSTEM}\n\n{_USER}"}]
    for messages in (system, merged):
        try:
            text = tokenizer.apply_chat_template(
                messages,
                chat_template=undated(tokenizer.get_chat_template()),
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        except Exception:  # templates raise their own jinja errors for roles they do not know
            continue
        before, found_system, rest = text.partition(_SYSTEM)
        between, found_user, after = rest.partition(_USER)
        if found_system and found_user:
            return Template(before, between, after, answers_after_turn=True)
    raise BackboneError(
        "the chat template of this tokenizer shows neither a system nor a user text; "
        "use prompt=plain for this backbone"
    )


def undated(template: str) -> str:
    """A chat template that tells always the same day: a prompt must not change from one to the next."""
    if _CLOCK not in template:
        return template
    # A macro is found before the renderer's own function of that name.
    day = "".join(f"|replace({code!r},{DAY.strftime(code)!r})" for code in _CODES)
    return f"{{% macro {_CLOCK}(format) %}}{{{{ format{day} }}}}{{% endmacro %}}\n{template}"


def _adds_bos(tokenizer: Any) -> bool:
    ids = tokenizer("a").input_ids
    return bool(ids) and ids[0] == tokenizer.bos_token_id
