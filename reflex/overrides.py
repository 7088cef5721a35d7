"""Command-line overrides: what must be changed before Hydra reads them, and what its refusals mean."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString
from hydra.errors import HydraException
from omegaconf import MISSING

from reflex.config import RootConfig
from reflex.messages import USER_ERRORS, one_line
from reflex.places import conf_dir

RUNS = re.compile(r"\+{0,2}(a|b|run|task\.run_id|task\.from_run)=")
"""Keys that name recorded runs."""

NUMBER = re.compile(r"(?<![^=,\[\s])\d+(?:e\d+)?(?![^,\]\s])", re.IGNORECASE)
"""A run's hash, or the beginning of one, that Hydra would read as a number: 12e45678, 0123."""

REQUIRED, NULL = (
    {field.name for field in dataclasses.fields(RootConfig) if field.default is default}
    for default in (MISSING, None)
)
"""Keys of the root that must be given, and those that are null unless something gives them."""


def as_typed(words: Sequence[str]) -> list[str]:
    """The words with such hashes in quotes, so that they reach the task digit by digit."""
    return [NUMBER.sub(r"'\g<0>'", word) if RUNS.match(word) else word for word in words]


def raised_by_composing(error: Exception) -> bool:
    """Whether Hydra or OmegaConf raised it: an error in a cell never leaves the cell."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = "" if place is None else str(place.tb_frame.f_globals.get("__name__"))
    return isinstance(error, (*USER_ERRORS, OSError)) or module.startswith(("hydra.", "omegaconf."))


def composing_error(error: Exception, words: Sequence[str]) -> str:
    """One line for what composing `words` raised. Some wrong values Hydra meets with bare Python errors."""
    if not isinstance(error, (*USER_ERRORS, OSError)):
        for override in _parsed(words):
            if told := _no_name(override) or _below_null(override):
                return told
    return one_line(error)


def _parsed(words: Sequence[str]) -> Iterator[Override]:
    parser = OverridesParser.create()
    for word in words:
        try:
            yield parser.parse_override(word)
        except HydraException:  # a flag or its value
            continue


def _no_name(override: Override) -> str | None:
    """What is wrong with a group's value that is no option's name."""
    group = override.key_or_group
    if override.is_delete() or not re.fullmatch(r"\w+(/\w+)*", group):
        return None
    wrong = [value for value in _values(override) if not isinstance(value, str | list | dict)]
    known = sorted(file.stem for file in (conf_dir() / group).glob("*.yaml"))
    if not wrong or not (known or group.startswith("hydra")):
        return None
    shown = "null" if wrong[0] is None else str(wrong[0])
    shown = shown.lower() if isinstance(wrong[0], bool) else shown
    told = (
        f"{group}={shown}: use one of {', '.join(known)}"
        if known
        else f"{group}={shown}: use a name"
    )
    return told if group in REQUIRED else f"{told}; ~{group} leaves the group out"


def _values(override: Override) -> list[Any]:
    """The values of one override, of all cells if it is swept."""
    swept = override.is_sweep_override()
    values = override.sweep_iterator(lambda value: value) if swept else [override.value()]
    return [value.text if isinstance(value, QuotedString) else value for value in values]


def _below_null(override: Override) -> str | None:
    """What is wrong with a key below one of the root that is null."""
    top = override.key_or_group.partition(".")[0]
    if top not in NULL or (conf_dir() / top).is_dir():
        return None
    return f"{override.input_line}: {top} is null here; add an experiment=… that has one"
